// One objective's page: status, diff, actions.

export class ObjectivePage {
  constructor(page, id) {
    this.page = page;
    this.id = id;
  }

  async open() {
    await this.page.goto(`/objective/${this.id}`);
  }

  /** The page shows a file of the change. */
  async showsInDiff(name) {
    const tab = this.page.getByRole("link", { name: /^diff/i }).or(this.page.getByRole("tab", { name: /^diff/i }));
    if (await tab.count()) await tab.first().click();
    await this.page.locator("[data-diff]").getByText(name).first().waitFor();
  }

  async approve() {
    await this.page.getByRole("button", { name: /^approve/i }).first().click();
    const confirm = this.page.getByRole("dialog").getByRole("button", { name: /^approve/i });
    if (await confirm.count()) await confirm.click();
  }

  async openTerminal() {
    await this.page.getByRole("link", { name: /terminal/i }).first().click();
  }
}
