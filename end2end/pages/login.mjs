// The log-in page and the one-time set-up page: both are plain forms.
import { OWNER } from "../support/server.mjs";

export class LoginPage {
  constructor(page) {
    this.page = page;
  }

  async fill(name, password) {
    await this.page.getByLabel("Name").fill(name);
    await this.page.getByLabel("Password").fill(password);
  }

  async submit() {
    await this.page.getByRole("button", { name: "Log in" }).click();
  }

  async logIn({ name, password } = OWNER) {
    await this.page.goto("/login");
    await this.fill(name, password);
    await this.submit();
    await this.page.waitForURL((url) => url.pathname === "/");
  }

  /** From the link the server printed to an owner who is logged in. */
  async setUp(link, { name, password } = OWNER) {
    await this.page.goto(link);
    await this.page.getByLabel("Your name").fill(name);
    await this.page.getByLabel("Password").fill(password);
    await this.page.getByRole("button", { name: "Make the owner and log in" }).click();
    await this.page.waitForURL((url) => url.pathname === "/");
  }
}
