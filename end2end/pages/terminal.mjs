// The live terminal of one session.

export class TerminalPage {
  constructor(page) {
    this.page = page;
  }

  async open(session) {
    await this.page.goto(`/session/${session}`);
    await this.ready();
  }

  async ready() {
    await this.page.locator("[data-term][data-ready]").waitFor({ timeout: 30_000 });
  }

  async shows(text, timeout = 30_000) {
    await this.page.locator("[data-term] [data-line]").filter({ hasText: text }).first().waitFor({ timeout });
  }

  /** Number and text of every line that is in the page. */
  lines() {
    return this.page.locator("[data-term] [data-line]").evaluateAll((rows) =>
      rows.map((row) => ({ number: Number(row.dataset.line), text: row.textContent })),
    );
  }
}
