// Requests to the server of the page.

export async function get(path) {
  return read(await fetch(path));
}

export async function post(path, body, signal) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return read(await fetch(path, options));
}

async function read(response) {
  const body = await response.json().catch(() => ({ detail: response.statusText }));
  if (!response.ok) throw new Error(body.detail);
  return body;
}

// Sends one request at a time, and then only the newest of those that were made meanwhile. Answers therefore come in order, and
// the chart follows a drag as quickly as the server answers.
export class Latest {
  constructor(send, receive, fail) {
    Object.assign(this, { send, receive, fail, next: null, busy: false });
  }

  async ask(question) {
    this.next = question;
    if (this.busy) return;
    this.busy = true;
    while (this.next) {
      const asked = this.next;
      this.next = null;
      try {
        this.receive(await this.send(asked), asked, this.next === null);
      } catch (error) {
        if (error.name !== "AbortError") this.fail(error);
      }
    }
    this.busy = false;
  }
}
