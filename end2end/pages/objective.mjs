// One objective's page: its tabs, and the person's decision.
import { hydrated } from "../support/browser.mjs";

export class ObjectivePage {
  constructor(page, id) {
    this.page = page;
    this.id = id;
  }

  async open(tab) {
    await this.page.goto(`/objective/${this.id}${tab ? `?tab=${tab}` : ""}`);
    await hydrated(this.page);
  }

  /** The page shows a file of the change. */
  async showsInDiff(name) {
    await this.page.locator('[data-tab="diff"]').click();
    await this.page.locator("[data-diff]").getByText(name).first().waitFor();
  }

  /** What the session got to read, on the page as opened and by a click. */
  async showsContext(text) {
    const shown = () => this.page.locator("[data-context]").getByText(text).first().waitFor();
    await this.page.locator('[data-tab="context"]').click();
    await shown();
    await this.open("context");
    await shown();
  }

  /** Signs it; the branch stays where it is. */
  async approve() {
    const keep = this.page.locator('input[name="integrate"][value="keep"]');
    await this.page.locator("label").filter({ has: keep }).click();
    await this.page.locator("[data-approve]").click();
  }

  /** The first session's terminal, through the list of sessions. */
  async openTerminal() {
    await this.page.locator('[data-tab="sessions"]').click();
    await this.page.locator("[data-session] a").first().click();
  }
}
