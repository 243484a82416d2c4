// A Worker in a hidden frame, as a page opened from a file may start none: the site's search needs one.
class IframeWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow;
    inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inner.importScripts = async (...urls) => {
      for (const each of urls) await this.load(each);
    };
    this.ready = this.load(url);
  }

  load(url) {
    return new Promise((resolve, reject) => {
      const script = this.frame.contentDocument.createElement("script");
      Object.assign(script, { src: url, onload: resolve, onerror: reject });
      this.frame.contentDocument.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = IframeWorker;
