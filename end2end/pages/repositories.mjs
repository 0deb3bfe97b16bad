// Repositories: the list, and the form that changes one.
import { hydrated } from "../support/browser.mjs";

export class RepositoriesPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/repositories");
    await hydrated(this.page);
  }

  row(name) {
    return this.page.locator(`[data-repo="${name}"]`);
  }

  /** Changes a repository: fields by the beginning of their label. */
  async change(name, fields) {
    await this.page.getByRole("button", { name: `Change ${name}` }).click();
    const form = this.page.locator("[data-change-repo]");
    for (const [label, text] of Object.entries(fields)) await form.getByLabel(label).fill(text);
    await form.getByRole("button", { name: "Save" }).click();
    await form.waitFor({ state: "detached" });
  }
}
