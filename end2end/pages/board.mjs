// The board: lanes, cards, the Move to menu, drag and drop, the connection's state.
import { hydrated } from "../support/browser.mjs";
import { waitUntil } from "../support/wait.mjs";

export class BoardPage {
  constructor(page) {
    this.page = page;
  }

  async open() {
    await this.page.goto("/");
    await this.live();
  }

  /** Hydrated, and joined to the feed. */
  async live() {
    await hydrated(this.page);
    await this.page.locator('[data-live="live"]').first().waitFor({ state: "attached", timeout: 30_000 });
  }

  lane(status) {
    return this.page.locator(`section[data-lane="${status}"]`);
  }

  card(id, status) {
    const card = `article[data-card="${id}"]`;
    return status ? this.lane(status).locator(card) : this.page.locator(card);
  }

  async shows(id, status, timeout = 30_000) {
    await this.card(id, status).waitFor({ timeout });
  }

  /** On a phone: the lane is what the screen shows, and its tab is the current one and in sight. */
  async isOn(status) {
    await waitUntil(`the phone shows ${status}`, () => this.page.evaluate((wanted) => {
      const lanes = [...document.querySelectorAll("[data-lane]")];
      const tabs = [...document.querySelectorAll(".lane-tab")];
      const at = tabs.findIndex((tab) => tab.ariaCurrent === "true");
      if (lanes[at]?.dataset.lane !== wanted) return false;
      const [lane, tab] = [lanes[at].getBoundingClientRect(), tabs[at].getBoundingClientRect()];
      return Math.abs(lane.left - 16) < 4 && tab.left >= 0 && tab.right <= innerWidth;
    }, status));
  }

  get toast() {
    return this.page.locator("[data-toast]");
  }

  /** With the mouse, as a hand does it: press, move in steps, let go over the lane. */
  async drag(id, to) {
    const mouse = this.page.mouse;
    const centre = async (locator) => {
      const { x, y, width, height } = await locator.boundingBox();
      return [x + width / 2, y + Math.min(height / 2, 120)];
    };
    const [x, y] = await centre(this.card(id).locator(".card-meta").or(this.card(id)).last());
    await mouse.move(x, y);
    await mouse.down();
    await mouse.move(x + 12, y + 6, { steps: 3 });
    // The lane may have scrolled into view once the card was in the hand.
    await mouse.move(...(await centre(this.lane(to))), { steps: 8 });
    await mouse.move(...(await centre(this.lane(to))), { steps: 2 });
    await mouse.up();
  }

  /** Ends when the card stands in a lane, if only for a moment: the page itself looks. */
  seenIn(id, status) {
    return this.page.evaluate(
      (selector) =>
        new Promise((done) => {
          const look = () => document.querySelector(selector) !== null && (observer.disconnect(), done());
          const observer = new MutationObserver(look);
          observer.observe(document.body, { childList: true, subtree: true });
          look();
        }),
      `section[data-lane="${status}"] article[data-card="${id}"]`,
    );
  }

  /** Without a mouse: focus the card's menu button, open it, walk to the entry. */
  async moveByKeyboard(id, to) {
    await this.card(id).locator("[data-move]").focus();
    await this.page.keyboard.press("Enter");
    // Without a way on but the last one, the menu itself has the focus.
    await this.page.locator('[role="menu"]:focus, [role="menu"] :focus').first().waitFor();
    const focused = () => this.page.evaluate(() => document.activeElement.getAttribute("data-move-to"));
    for (let step = 0; step < 10 && (await focused()) !== to; step += 1) await this.page.keyboard.press("ArrowDown");
    await this.page.keyboard.press("Enter");
  }

  async moveByMenu(id, to) {
    await this.card(id).locator("[data-move]").click();
    await this.page.locator(`[data-move-to="${to}"]:visible`).click();
  }

  async addSampleRepository() {
    await this.page.locator("[data-add-sample]").first().click();
    await this.toast.first().waitFor();
  }
}
