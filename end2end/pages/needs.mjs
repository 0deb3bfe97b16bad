// "Needs you": everything that waits for a person.

export class NeedsPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/needs");
  }

  item(id) {
    return this.page.locator(`[data-needs] [data-card="${id}"]`);
  }
}
