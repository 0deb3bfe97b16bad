// Accounts: the mode, and a card for each account.
import { hydrated } from "../support/browser.mjs";

export class AccountsPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/accounts");
    await hydrated(this.page);
  }

  get mode() {
    return this.page.locator("[data-mode]");
  }

  card(name) {
    return this.page.locator(`article[data-account="${name}"]`);
  }

  async is(name, state, timeout = 30_000) {
    await this.page.locator(`article[data-account="${name}"][data-state="${state}"]`).waitFor({ timeout });
  }

  button(name) {
    return this.card(name).getByRole("button");
  }
}
