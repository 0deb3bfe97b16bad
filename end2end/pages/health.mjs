// Health: each background task, its last run and result.

export class HealthPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/health");
  }

  task(name) {
    return this.page.locator(`tr[data-task="${name}"]`);
  }
}
