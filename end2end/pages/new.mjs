// The form of a new objective.
import { hydrated } from "../support/browser.mjs";

export class NewPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/new");
    await hydrated(this.page);
  }

  /** A choice is a whole labelled box, as a person would press it. */
  async choose(name, value) {
    const radio = this.page.locator(`input[name="${name}"][value="${value}"]`);
    await this.page.locator("label").filter({ has: radio }).click();
  }

  /** Fills the form, sends it, and returns the number of the objective it leads to. */
  async create({ title, kind = "bug", criterion, check, agent = "demo" }) {
    const page = this.page;
    await page.getByLabel("Title", { exact: true }).fill(title);
    await this.choose("kind", kind);
    await page.getByLabel("Criterion", { exact: true }).first().fill(criterion);
    await page.getByLabel("Check, optional").first().fill(check);
    await this.choose("agent", agent);
    await page.locator("[data-create]").click();
    await page.waitForURL(/\/objective\/\d+/);
    return Number(/\/objective\/(\d+)/.exec(page.url())[1]);
  }
}
