//! SIGHUP with a file of settings: what can change does, under connections
//! that stay, and what is wrong changes nothing.

use interop::{Nearside, scratch};
use rustix::process::Signal;
use service::server::{Server, signal};
use service::{now, wait_for};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A server whose settings are in a file.
struct Service {
    server: Server,
    settings: PathBuf,
}

impl Service {
    fn new(test: &str) -> Self {
        let program = PathBuf::from(Nearside::command([""; 0]).get_program());
        let server = Server::new(&program, &scratch(test)).unwrap();
        let settings = server.folder().join("settings.toml");
        Self { server, settings }
    }

    fn write(&self, text: &str) {
        fs::write(&self.settings, text).unwrap();
    }

    /// The settings that every test has, for a response of `respond`.
    fn basis(&self, respond: &str) -> String {
        let file = |name: &str| self.server.folder().join(name).display().to_string();
        format!(
            "listen = [\"127.0.0.1:{}\", \"unix:{}\"]\nworkers = 2\nrespond = \"text:{respond}\"\ncontrol = \"{}\"\n\
             pid-file = \"{}\"\nstatus-page = \"{}\"\n",
            self.server.port,
            file("web.sock"),
            file("control"),
            file("pid"),
            file("status"),
        )
    }

    fn command(&self) -> Command {
        let mut command = Nearside::command(["serve", "--settings"]);
        command.arg(&self.settings);
        command
    }

    fn start(&mut self) -> u32 {
        let mut command = self.command();
        self.server.start(&mut command).unwrap()
    }

    /// Has it read the file again, and waits until it says what became of
    /// that.
    fn reload(&self) -> String {
        let before = self.server.log().lines().count();
        signal(self.server.serving().unwrap(), Signal::HUP).unwrap();
        wait_for("a word about the reload", || {
            let log = self.server.log();
            // What the limit on descriptors is, it warns of.
            let mut said = log.lines().skip(before).filter(|line| !line.contains("Z warning: "));
            // Without its time and level.
            Ok(said.next().map(|line| line.split_once(": ").map_or(line, |(_, said)| said).to_owned()))
        })
        .unwrap()
    }

    /// What the statistics page says of the last reload.
    fn on_page(&self) -> String {
        let page = self.server.folder().join("status");
        let Output { stdout, .. } = Nearside::command(["status", "--json"]).arg(page).output().unwrap();
        let text = String::from_utf8(stdout).unwrap();
        let reload = text.find("\"reload\":").expect("the page tells of reloads");
        text[reload..].split('}').next().unwrap().to_owned()
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.server.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection(stream)
    }
}

/// A connection that stays open.
struct Connection(TcpStream);

impl Connection {
    /// The body of the next response.
    fn ask(&mut self) -> String {
        interop::ask(&mut self.0, "/page.txt")
    }

    /// How long it is until the server closes it.
    fn closed_after(&mut self) -> Duration {
        let began = now();
        assert_eq!(self.0.read(&mut [0; 1]).unwrap(), 0);
        began.elapsed()
    }
}

#[test]
fn what_changes_at_sighup_shows_on_connections_that_stay() {
    let mut service = Service::new("settings-change");
    let log = |name: &str| service.server.folder().join(name);
    let (first, second) = (log("first.log"), log("second.log"));
    let with = |body: &str, more: &str| format!("{}{more}", service.basis(body));
    let (one, two) = (
        with("one", &format!("access-log = \"{}\"\n", first.display())),
        with(
            "a second body",
            &format!("access-log = \"{}\"\nmax-connections = 500\nidle = \"adaptive:1ms\"\n", second.display()),
        ),
    );
    let three = with("a second body", "keep-alive-timeout = \"300ms\"\n");
    service.write(&one);
    let pid = service.start();
    let mut staying: Vec<Connection> = (0..20).map(|_| service.connect()).collect();
    for connection in &mut staying {
        assert_eq!(connection.ask(), "one");
    }
    service.write(&two);
    let said = service.reload();
    assert!(said.ends_with("changed: access-log, idle, max-connections, respond"), "{said}");
    assert!(service.on_page().contains("\"done\":true") && service.on_page().contains(&said), "{}", service.on_page());
    for connection in &mut staying {
        assert_eq!(connection.ask(), "a second body");
    }
    // Each log has what was asked while it was the one: those before are
    // written, whoever closed it.
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().lines().count();
    for path in [&first, &second] {
        wait_for("the log", || Ok((lines(path) == 20).then_some(()))).unwrap();
    }
    // Shorter limits count for waits that began before.
    service.write(&three);
    let said = service.reload();
    assert!(said.ends_with("changed: access-log, idle, keep-alive-timeout, max-connections"), "{said}");
    for connection in &mut staying {
        let after = connection.closed_after();
        assert!(after < Duration::from_secs(10), "{after:?}");
    }
    assert_eq!(service.server.serving(), Some(pid));
    service.server.stop().unwrap();
}

#[test]
fn a_bad_file_changes_nothing_and_is_told_everywhere() {
    let mut service = Service::new("settings-bad");
    let path = service.server.folder().join("notify");
    let notify = UnixDatagram::bind(&path).unwrap();
    let told = |what: &str| {
        let mut message = [0; 4_096];
        loop {
            let len = notify.recv(&mut message).unwrap();
            let text = String::from_utf8_lossy(&message[..len]).into_owned();
            if text.contains(what) {
                return text;
            }
        }
    };
    service.write(&service.basis("one"));
    let mut command = service.command();
    let pid = service.server.start(command.env("NOTIFY_SOCKET", &path)).unwrap();
    let mut staying = service.connect();
    assert_eq!(staying.ask(), "one");
    let basis = service.basis("two");
    for (more, why) in [
        ("idel = \"spin\"", "settings.toml:7: there is no setting \"idel\"; is it \"idle\"?"),
        ("keep-alive-timeout = true", "settings.toml:7: keep-alive-timeout is text or a number"),
        ("header-timeout = \"soon\"", "settings.toml:7: invalid value 'soon' for '--header-timeout <TIME>'"),
        ("cache-size = 1", "cannot be used with"),
        ("access-log = \"/nonexistent/log\"", "cannot open the access log /nonexistent/log"),
        ("link = \"tap:x\"\naddr = \"10.0.0.2/24\"", "cannot be used with '--link <LINK>'"),
        ("=", "settings.toml:7: "),
    ] {
        service.write(&format!("{basis}{more}\n"));
        let said = service.reload();
        assert!(said.contains(why) && said.ends_with("everything stays as it was"), "{more}: {said}");
        let page = service.on_page();
        assert!(page.contains("\"done\":false") && page.contains("everything stays as it was"), "{page}");
        let status = told("everything stays as it was");
        assert!(status.lines().any(|line| line == "READY=1") && status.lines().count() == 2, "{status}");
        // Not the body, which was good.
        assert_eq!((staying.ask(), service.connect().ask()), ("one".to_owned(), "one".to_owned()));
    }
    fs::remove_file(&service.settings).unwrap();
    assert!(service.reload().contains("cannot read the settings in"));
    assert_eq!(staying.ask(), "one");
    // And one that is good again.
    service.write(&basis);
    assert!(service.reload().ends_with("changed: respond"));
    assert_eq!((staying.ask(), service.server.serving()), ("two".to_owned(), Some(pid)));
    service.server.stop().unwrap();
}

/// What needs another process is named, the rest changes; and the successor
/// reads the file anew.
#[test]
fn what_needs_a_take_over_waits_for_it() {
    let mut service = Service::new("settings-left");
    service.write(&service.basis("one"));
    let old = service.start();
    let mut staying = service.connect();
    assert_eq!(staying.ask(), "one");
    let more = "backlog = 100\n";
    service.write(&format!("{}{more}", service.basis("two").replace("workers = 2", "workers = 1")));
    let said = service.reload();
    let left = "changed: respond; left as it was: backlog, workers, which need a take-over (SIGUSR2)";
    assert!(said.ends_with(left), "{said}");
    assert_eq!(staying.ask(), "two");
    // Still asked for, still not there.
    assert!(service.reload().ends_with("again; left as it was: backlog, workers, which need a take-over (SIGUSR2)"));
    // A folder in place of a body is another server.
    let folder = service.server.folder().join("site").display().to_string();
    let other = service.basis("two").replace("respond = \"text:two\"", &format!("folder = \"{folder}\""));
    service.write(&other);
    let said = service.reload();
    assert!(said.contains("needs a take-over (SIGUSR2); everything stays as it was"), "{said}");
    assert_eq!(staying.ask(), "two");
    service.write(&format!("{}{more}", service.basis("three").replace("workers = 2", "workers = 1")));
    service.server.restart().unwrap();
    service.server.wait_until_said("1 worker, accept model").unwrap();
    // Its connection's last, from the old one.
    assert_eq!(staying.ask(), "two");
    drop(staying);
    service.server.wait_until_ended(old).unwrap();
    assert_eq!(service.connect().ask(), "three");
    service.server.stop().unwrap();
}

/// Another folder, with the rules for it: whole responses of one or the other.
#[test]
fn another_folder_is_served() {
    let mut service = Service::new("settings-folder");
    let folder = |name: &str, content: &str| {
        let folder = service.server.folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("page.txt"), content).unwrap();
        folder.display().to_string()
    };
    let (one, two) = (folder("one", "the first"), folder("two", "another one"));
    let linked = service.server.folder().join("linked");
    fs::create_dir_all(&linked).unwrap();
    std::os::unix::fs::symlink("../two/page.txt", linked.join("page.txt")).unwrap();
    let text = |folder: &str, more: &str| {
        service.basis("x").replace("respond = \"text:x\"", &format!("folder = \"{folder}\"\n{more}"))
    };
    let texts = [
        text(&one, ""),
        text(&two, "cache-size = \"1M\""),
        text(&linked.display().to_string(), "symlinks = \"on\""),
        text(&one, "sendfile-above = 1"),
        text("/nonexistent", ""),
    ];
    service.write(&texts[0]);
    service.start();
    let mut staying = service.connect();
    assert_eq!(staying.ask(), "the first");
    for (text, changed, body) in [
        (&texts[1], "cache-size, folder", "another one"),
        (&texts[2], "cache-size, folder, symlinks", "another one"),
        (&texts[3], "folder, sendfile-above, symlinks", "the first"),
    ] {
        service.write(text);
        let said = service.reload();
        assert!(said.ends_with(&format!("changed: {changed}")), "{said}");
        assert_eq!((staying.ask(), service.connect().ask()), (body.to_owned(), body.to_owned()));
    }
    service.write(&texts[4]);
    assert!(service.reload().contains("cannot read /nonexistent again"));
    assert_eq!(staying.ask(), "the first");
    service.server.stop().unwrap();
}

#[test]
fn a_file_is_checked_without_serving() {
    let service = Service::new("settings-check");
    let check = || {
        let Output { status, stdout, stderr } = service.command().arg("--check").output().unwrap();
        let said = [stdout, stderr].concat();
        (status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    service.write(&service.basis("one"));
    let (good, said) = check();
    assert!(good && said.contains("good: serves a fixed response over kernel sockets, workers: 2"), "{said}");
    assert!(!service.server.folder().join("web.sock").exists(), "nobody listened");
    service.write("respond = 'text:x'\nlisten = ['80']\nwokers = 2\n");
    let (good, said) = check();
    assert!(!good && said.contains("settings.toml:3: there is no setting \"wokers\"; is it \"workers\"?"), "{said}");
    service.write("folder = '/nonexistent/folder'\n");
    let (good, said) = check();
    assert!(!good && said.contains("cannot open the root directory /nonexistent/folder"), "{said}");
    service.write("respond = 'text:x'\ncores = '4095'\n");
    let (good, said) = check();
    assert!(!good && said.contains("core 4095"), "{said}");
}

/// A site by an nginx.conf, in a folder of its own.
struct Site {
    folder: PathBuf,
    port: u16,
}

impl Site {
    fn new(test: &str) -> Self {
        let folder = scratch(test);
        for name in ["html", "logs"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("html/index.html"), "a page").unwrap();
        // Free by now; nobody else asks for ports in a row.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder, port }
    }

    fn write(&self, body: &str) {
        self.write_for("user root;", "", body);
    }

    /// For a user, with more directives of the server.
    fn write_for(&self, user: &str, more: &str, body: &str) {
        let port = self.port;
        let text = format!(
            "{user} pid nginx.pid; error_log logs/error.log; events {{ worker_connections 64; }}\n\
             http {{ access_log logs/access.log; server {{ listen 127.0.0.1:{port}; {more}\n\
             location / {{ try_files $uri $uri/ =404; }} location = /said {{ return 200 \"{body}\"; }} }} }}\n"
        );
        fs::write(self.folder.join("nginx.conf"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Nearside::command(["nginx", "-c", "nginx.conf", "-p"]);
        command.arg(&self.folder).args(arguments);
        command
    }

    /// Whether it went well, and what was said.
    fn call(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.folder.join("nginx.pid")).ok()?.trim_end().parse().ok()
    }

    fn get(&self, path: &str) -> Option<String> {
        use std::io::Write;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        wait_for(what, || Ok(holds(self).then_some(()))).unwrap();
    }

    fn says(&self, body: &str) -> bool {
        self.get("/said").is_some_and(|answer| answer.ends_with(body))
    }
}

#[test]
fn an_nginx_conf_is_tested_served_reloaded_and_ended() {
    let site = Site::new("nginx-foreground");
    site.write("the first");
    let path = site.folder.join("nginx.conf").display().to_string();
    let good = format!(
        "nginx: the configuration file {path} syntax is ok\nnginx: configuration file {path} test is successful\n"
    );
    assert!(site.call(&["-t"]).1.ends_with(&good));
    assert!(site.call(&["-t"]).0 && !site.folder.join("nginx.pid").exists(), "a test leaves nothing behind");
    let (went, said) = site.call(&["-s", "reload"]);
    assert!(!went && said.contains("nginx: [error] open() \"") && said.contains("(2: No such file"), "{said}");
    let mut child = site.command(&["-g", "daemon off;"]).spawn().unwrap();
    site.wait_until("the file with its id", |site| site.pid() == Some(child.id()));
    assert!(site.get("/").is_some_and(|answer| answer.ends_with("a page")) && site.says("the first"));
    site.write("the second");
    assert!(site.call(&["-s", "reload"]).0);
    site.wait_until("another answer", |site| site.says("the second"));
    site.write("the third }");
    assert!(site.call(&["-tq"]).0, "a bracket in quotes");
    fs::write(site.folder.join("nginx.conf"), "http { oops; }").unwrap();
    let (went, said) = site.call(&["-tq"]);
    // The first line is nginx's and the last; between them stands all that is wrong.
    let (first, last) = (format!("[emerg] unknown directive \"oops\" in {path}:1\n"), said.lines().last());
    assert_eq!(last, Some(format!("nginx: configuration file {path} test failed").as_str()), "{said}");
    assert!(!went && said.contains(&first) && said.contains("no \"events\" section"), "{said}");
    signal(child.id(), Signal::HUP).unwrap();
    let log = site.folder.join("logs/error.log");
    site.wait_until("a word about it", |_| fs::read_to_string(&log).is_ok_and(|text| text.contains("oops")));
    assert!(site.says("the second"), "a wrong one changes nothing");
    site.write("the fourth");
    fs::rename(&log, site.folder.join("logs/old.log")).unwrap();
    assert!(site.call(&["-s", "reopen"]).0);
    site.wait_until("a log in its place", |_| log.exists());
    assert!(site.call(&["-s", "quit"]).0);
    assert!(child.wait().unwrap().success());
    assert!(site.pid().is_none() && fs::read_to_string(&log).unwrap().contains("[notice]"));
}

/// Processes that this one started.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// With the rights of root kept, too, as nginx's master does: in the file with the process
/// id nothing changes. What cannot be taken up is told by the command, which fails.
#[test]
fn what_comes_of_a_reload_is_told_by_the_command() {
    let (site, other) = (Site::new("nginx-answers"), Site::new("nginx-answers-other"));
    site.write("the first");
    let mut child = site.command(&["-g", "daemon off;"]).spawn().unwrap();
    site.wait_until("the file with its id", |site| site.pid() == Some(child.id()));
    let (went, said) = site.call(&["-s", "reload"]);
    assert!(went && said.is_empty(), "nothing is others: {said}");
    site.write("the second");
    assert!(site.call(&["-s", "reload"]).0);
    assert!(site.says("the second"), "it has been taken up when the command returns");
    let is_root = rustix::process::geteuid().is_root();
    let listen = format!("listen 127.0.0.1:{};", other.port);
    site.write_for("user root;", &listen, "the third");
    let (went, said) = site.call(&["-s", "reload"]);
    if is_root {
        assert!(went, "{said}");
        assert!(other.says("the third") && site.says("the third"));
        assert_eq!(site.pid(), Some(child.id()));
        site.write_for("user root;", "listen 192.0.2.1:1;", "the fourth");
        let (went, said) = site.call(&["-s", "reload"]);
        assert!(!went && said.contains("nginx: [error] ") && said.contains("stays as it was"), "{said}");
        assert!(site.says("the third"));
    } else {
        assert!(!went && said.contains("left as it was: listen, which needs a take-over"), "{said}");
        assert!(site.says("the third") && !other.says("the third"));
    }
    assert!(site.call(&["-s", "quit"]).0);
    let ended = child.wait().unwrap();
    let log = || fs::read_to_string(site.folder.join("logs/error.log")).unwrap_or_default();
    assert!(ended.success(), "{ended}:\n{}", log());
}

/// What was not changed is not said to be left as it was, by a process that has given
/// root's rights up.
#[test]
fn a_reload_of_the_same_changes_nothing() {
    let site = Site::new("nginx-same");
    site.write_for("user nobody;", "", "the same");
    let _ = fs::remove_file(site.folder.join("logs/error.log"));
    let mut child = site.command(&["-g", "daemon off;"]).spawn().unwrap();
    site.wait_until("the file with its id", |site| site.pid() == Some(child.id()));
    let (went, said) = site.call(&["-s", "reload"]);
    assert!(went, "{said}");
    let log = fs::read_to_string(site.folder.join("logs/error.log")).unwrap();
    assert!(log.contains("reloaded") && !log.contains("left as it was"), "{log}");
    assert!(site.call(&["-s", "quit"]).0);
    assert!(child.wait().unwrap().success());
}

/// Lines below the level that a configuration asks for are not written.
#[test]
fn levels_of_the_error_log_hold() {
    let site = Site::new("nginx-levels");
    site.write_for("", "", "quiet");
    let _ = fs::remove_file(site.folder.join("logs/error.log"));
    let text = fs::read_to_string(site.folder.join("nginx.conf")).unwrap();
    fs::write(site.folder.join("nginx.conf"), text.replace("error.log;", "error.log crit;")).unwrap();
    let mut child = site.command(&["-g", "daemon off;"]).spawn().unwrap();
    site.wait_until("the file with its id", |site| site.pid() == Some(child.id()));
    assert!(site.says("quiet") && site.call(&["-s", "reload"]).0);
    let log = site.folder.join("logs/error.log");
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    fs::write(site.folder.join("nginx.conf"), text).unwrap();
    assert!(site.call(&["-s", "reload"]).0);
    assert!(fs::read_to_string(&log).unwrap().contains("[notice]"), "it is told of again");
    assert!(site.call(&["-s", "quit"]).0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_nginx_conf_is_served_in_the_background() {
    let site = Site::new("nginx-background");
    site.write("there");
    assert!(site.call(&[]).0);
    let first = site.pid().expect("it is there when the command returns");
    assert!(site.says("there"));
    let (went, said) = site.call(&[]);
    assert!(!went && said.contains("nginx: [emerg] cannot listen on 127.0.0.1"), "{said}");
    assert_eq!(site.pid(), Some(first));
    // Root's has a parent, which stays.
    let serving = |site: &Site| children(site.pid().unwrap_or(first)).first().copied().or(site.pid());
    let before = serving(&site);
    signal(first, Signal::USR2).unwrap();
    site.wait_until("its successor", |site| serving(site) != before && site.says("there"));
    assert!(site.says("there"));
    assert!(site.call(&["-s", "stop"]).0);
    site.wait_until("its end", |site| site.pid().is_none() && site.get("/").is_none());
}

/// Root gives its rights up; the parent that keeps them has a successor listen where
/// the first may not.
#[test]
fn an_nginx_conf_with_another_address_is_taken_up_by_a_successor() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can give its rights up");
        return;
    }
    let (site, other) = (Site::new("nginx-addresses"), Site::new("nginx-addresses-other"));
    site.write_for("", "", "the first");
    let mut child = site.command(&["-g", "daemon off;"]).spawn().unwrap();
    site.wait_until("the file with its id", |site| site.pid() == Some(child.id()));
    assert!(site.says("the first") && other.get("/said").is_none());
    let listen = format!("listen 127.0.0.1:{};", other.port);
    site.write_for("", &listen, "the second");
    assert!(site.call(&["-s", "reload"]).0);
    other.wait_until("the other address", |other| other.says("the second"));
    site.wait_until("the first one", |site| site.says("the second"));
    site.write_for("", "", "the third");
    assert!(site.call(&["-s", "reload"]).0);
    site.wait_until("the third", |site| site.says("the third"));
    other.wait_until("nobody listens there", |other| other.get("/said").is_none());
    let log = site.folder.join("logs/access.log");
    fs::rename(&log, site.folder.join("logs/old.log")).unwrap();
    assert!(site.call(&["-s", "reopen"]).0);
    site.wait_until("a log in its place", |site| {
        site.says("the third") && fs::read_to_string(&log).is_ok_and(|text| text.contains("/said"))
    });
    assert_eq!(site.pid(), Some(child.id()));
    assert!(site.call(&["-s", "quit"]).0);
    assert!(child.wait().unwrap().success());
}
