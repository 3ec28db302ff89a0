//! Chromium without a window, asked over a pair of pipes (the DevTools protocol), and what it is
//! asked of a page.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Widths in pixels, and how the page is shown.
const WIDTHS: [u32; 3] = [400, 900, 1_400];
const SHOWN: [(&str, &str); 3] = [("screen", "light"), ("screen", "dark"), ("print", "light")];

/// A first screen.
const HEIGHT: u32 = 800;

/// Looks at the page as it is shown, and answers with what is wrong.
const LOOK: &str = include_str!("look.js");

/// A browser that runs.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    last: u64,
    session: String,
    events: Vec<Value>,
    pictures: Option<PathBuf>,
}

impl Browser {
    /// Starts it; what it keeps goes below `folder`. With `NEARSIDE_PICTURES` it leaves pictures of
    /// what it saw in that folder.
    pub fn start(folder: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let profile = folder.join(format!("chromium-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(&profile).expect("a folder");
        let pipes = ["to", "from"].map(|name| profile.join(name));
        let status = Command::new("mkfifo").args(&pipes).status().expect("mkfifo");
        assert!(status.success(), "mkfifo: {status}");
        let script = "exec chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
                      --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<\"$0/to\" 4>\"$0/from\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&profile).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("a shell");
        let to = File::options().write(true).open(&pipes[0]).expect("a pipe");
        let from = BufReader::new(File::open(&pipes[1]).expect("a pipe"));
        let pictures = std::env::var_os("NEARSIDE_PICTURES").map(PathBuf::from);
        let mut this = Self { child, to, from, last: 0, session: String::new(), events: Vec::new(), pictures };
        let target = this.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = this.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        this.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            this.call(&format!("{domain}.enable"), &json!({}));
        }
        this
    }

    /// Asks for something, and waits for the answer; events on the way are kept.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("chromium listens");
        loop {
            let said = self.hear();
            if said["id"] == json!(self.last) {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].clone();
            }
        }
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        let length = self.from.read_until(0, &mut bytes).expect("chromium speaks");
        assert!(length > 0, "chromium has ended");
        let said: Value = serde_json::from_slice(&bytes[..length - 1]).expect("JSON");
        if said["id"].is_null() {
            self.events.push(said.clone());
        }
        said
    }

    /// Shows a page in every way, and says what was wrong with it.
    pub fn look(&mut self, file: &Path) -> Vec<String> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.hear();
        }
        let mut wrong = Vec::new();
        for width in WIDTHS {
            for (media, scheme) in SHOWN {
                let size = json!({ "width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false });
                self.call("Emulation.setDeviceMetricsOverride", &size);
                let features = [json!({ "name": "prefers-color-scheme", "value": scheme })];
                self.call("Emulation.setEmulatedMedia", &json!({ "media": media, "features": features }));
                self.settle(width, media, scheme);
                self.picture(&format!("{name}-{width}-{media}-{scheme}"));
                let asked = json!({ "expression": LOOK, "returnByValue": true });
                let said = self.call("Runtime.evaluate", &asked);
                let found = said.pointer("/result/value").and_then(Value::as_array).cloned();
                let found = found.unwrap_or_else(|| panic!("{name}: {said}"));
                let told = found.iter().filter_map(Value::as_str);
                wrong.extend(told.map(|what| format!("{name}, {width}, {media}, {scheme}: {what}")));
            }
        }
        for event in &self.events {
            let of = |path: &str| event.pointer(path).map(Value::to_string).unwrap_or_default();
            let url = of("/params/request/url");
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" if !url.starts_with("\"file:") && !url.starts_with("\"data:") => {
                    wrong.push(format!("{name}: it asks for {url}"));
                }
                "Runtime.consoleAPICalled" | "Log.entryAdded" | "Runtime.exceptionThrown" => {
                    wrong.push(format!("{name}: the console says {}", of("/params")));
                }
                _ => {}
            }
        }
        wrong
    }

    /// Waits until the page is laid out as it was asked for, and holds it against that.
    fn settle(&mut self, width: u32, media: &str, scheme: &str) {
        let told = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done([innerWidth, \
                    matchMedia('print').matches, matchMedia('(prefers-color-scheme: dark)').matches]))))";
        let asked = json!({ "expression": told, "returnByValue": true, "awaitPromise": true });
        let said = self.call("Runtime.evaluate", &asked);
        assert_eq!(said.pointer("/result/value"), Some(&json!([width, media == "print", scheme == "dark"])), "{said}");
    }

    /// Leaves a picture of the whole page, if pictures are asked for.
    fn picture(&mut self, name: &str) {
        use base64::Engine as _;
        let Some(folder) = self.pictures.clone() else { return };
        std::fs::create_dir_all(&folder).expect("a folder");
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().expect("a picture"));
        std::fs::write(folder.join(format!("{name}.png")), bytes.expect("base64")).expect("written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
