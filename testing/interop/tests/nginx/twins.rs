//! nginx and the program under test on both of its data paths, serving the same files
//! by the same configuration, each at an address of its own and with logs of its own.

use crate::answer::{Answer, Connection};
use crate::differences;
use crate::requests::{Asked, Parts};
use crate::theirs;
use crate::tree;
use interop::{Nearside, Running, ip, scratch, scratch_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where one of them is: the folder of its configuration, and its address.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) address: &'static str,
}

const NGINX: Side = Side { name: "nginx", address: "172.31.77.2" };
const OURS: Side = Side { name: "nearside", address: "172.31.77.3" };
/// Over our own stack.
const STACK: Side = Side { name: "stack", address: "172.31.77.4" };

/// All of them, nginx first; where nginx is compared with itself, each is one. An address is as long as another's.
pub(crate) const SIDES: [&Side; 3] = [&NGINX, &OURS, &STACK];

/// The link of the last: the kernel's end has the address that clients are at.
const LINK: [&str; 4] = ["--link", "tap:near0,addr=172.31.77.1/24", "--addr", "172.31.77.4/24"];

/// The process rules of both; what else a site needs stands in its configuration.
const PROCESS: &str = "user root;\nworker_processes 1;\ndaemon off;\npid {side}/nginx.pid;\n\
                       error_log {side}/error.log info;";

/// How often logs are looked at before they are said to differ: a busy machine writes
/// lines late.
const LOOKS: usize = 1_200;

/// How much of a body is shown.
const SHOWN: usize = 400;

/// Both, serving one site.
pub(crate) struct Twins {
    prefix: PathBuf,
    port: u16,
    running: [Running; 3],
    kept: [Option<Connection>; 3],
}

/// The folder with the configuration and the lists of the site `name`.
pub(crate) fn folder_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sites").join(name)
}

impl Twins {
    /// Makes the files of the site `name`, and serves them twice.
    pub(crate) fn start(name: &str) -> Self {
        let prefix = scratch("nginx").join(name);
        let _ = fs::remove_dir_all(&prefix);
        fs::create_dir_all(&prefix).unwrap();
        let folder = folder_of(name);
        tree::make(&prefix, &fs::read_to_string(folder.join("tree.txt")).unwrap());
        for side in SIDES {
            configure(&folder, &prefix.join(side.name), side);
        }
        Self::serve(prefix, 80)
    }

    /// Serves `prefix`, in which each has a folder with its configuration, at `port`.
    pub(crate) fn serve(prefix: PathBuf, port: u16) -> Self {
        for side in SIDES {
            if side.name != STACK.name || is_nginx_itself() {
                ip(&format!("addr add {}/32 dev lo", side.address));
            }
            fs::create_dir_all(prefix.join(side.name).join("logs")).unwrap();
        }
        let running = SIDES.map(|side| start(&prefix, side, port));
        Self { prefix, port, running, kept: [None, None, None] }
    }

    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// How answers to `asked` differ, each on a connection of its own.
    pub(crate) fn differ_on_new_connections(&mut self, asked: &Asked) -> Option<String> {
        let mut silent = String::new();
        let answers = SIDES.map(|side| {
            let mut connection = Connection::open(&format!("{}:{}", side.address, self.port));
            let answer = connection.ask(&asked.bytes, &asked.method);
            // What says that it closes does.
            if !answer.lives && !connection.ends(asked.parts.as_ref().is_some_and(Parts::is_framed)) {
                let _ = writeln!(silent, "{}: the connection goes on", side.name);
            }
            answer
        });
        difference(asked, "a new connection", &answers).or_else(|| (!silent.is_empty()).then_some(silent))
    }

    /// How answers differ on one connection to `port` that begins with `header`: all that
    /// are asked, as long as it lives.
    pub(crate) fn differ_behind(&mut self, port: u16, header: &[u8], requests: &[Asked]) -> Vec<String> {
        let mut connections = SIDES.map(|side| Connection::open(&format!("{}:{port}", side.address)));
        let mut failures = Vec::new();
        for (at, asked) in requests.iter().enumerate() {
            let bytes = [if at == 0 { header } else { b"" }, &asked.bytes].concat();
            let answers = connections.each_mut().map(|connection| connection.ask(&bytes, &asked.method));
            let on = format!("a connection to port {port} behind {}", header.escape_ascii());
            failures.extend(difference(asked, &on, &answers));
            if !answers.iter().all(|answer| answer.lives) {
                break;
            }
        }
        failures
    }

    /// Asks each for `target`, and leaves with the first bytes of it.
    pub(crate) fn leave(&self, target: &str) {
        for side in SIDES {
            let mut stream = TcpStream::connect(format!("{}:80", side.address)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            write!(stream, "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", side.address).unwrap();
            stream.read_exact(&mut [0; 100]).unwrap_or_else(|e| panic!("{}: {e}", side.name));
        }
    }

    /// The same, on a connection that is kept as long as both keep it.
    pub(crate) fn differ_on_kept_connections(&mut self, asked: &Asked) -> Option<String> {
        let were_kept = self.kept.iter().all(Option::is_some);
        let mut answers = [0, 1, 2].map(|side| self.ask(side, asked));
        // nginx closes some connections that it said to keep, as servers may.
        if were_kept && answers[0] == Answer::default() && answers[1..].iter().any(|it| *it != Answer::default()) {
            self.kept[0] = None;
            answers[0] = self.ask(0, asked);
        }
        // Ours say so of each (docs/differences.md); of nginx's it is seen by who asks again.
        let closes = answers[0].lives && answers[1..].iter().all(|answer| !answer.lives);
        if closes && self.ask(0, asked) == Answer::default() {
            answers[0].lives = false;
            answers[0].say_close();
        }
        if !answers.iter().all(|answer| answer.lives) {
            self.kept = [None, None, None];
        }
        difference(asked, "a kept connection", &answers)
    }

    /// What nginx answers on a connection of its own.
    pub(crate) fn ask_nginx(&self, asked: &Asked) -> Answer {
        Connection::open(&format!("{}:{}", NGINX.address, self.port)).ask(&asked.bytes, &asked.method)
    }

    /// Asks one of them, on its kept connection.
    fn ask(&mut self, side: usize, asked: &Asked) -> Answer {
        let address = format!("{}:{}", SIDES[side].address, self.port);
        let connection = self.kept[side].get_or_insert_with(|| Connection::open(&address));
        connection.ask(&asked.bytes, &asked.method)
    }

    /// How lines of the access logs differ, whatever their order.
    pub(crate) fn logs_differ(&self) -> Option<String> {
        self.logs_differ_after(LOOKS)
    }

    /// The same, looked at so often.
    pub(crate) fn logs_differ_after(&self, looks: usize) -> Option<String> {
        SIDES[1..].iter().find_map(|side| self.logs_of_differ(side, looks))
    }

    fn logs_of_differ(&self, ours: &Side, looks: usize) -> Option<String> {
        let mut told = None;
        for _ in 0..looks {
            told = self.differing_lines(ours);
            if told.is_none() {
                break;
            }
            // Lines are written a moment after the answer.
            std::thread::sleep(Duration::from_millis(50));
        }
        told
    }

    fn differing_lines(&self, ours: &Side) -> Option<String> {
        let mut count: BTreeMap<String, i64> = BTreeMap::new();
        for (side, step) in [(&NGINX, 1), (ours, -1)] {
            for file in fs::read_dir(self.prefix.join(side.name).join("logs")).unwrap() {
                let file = file.unwrap();
                let text = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned();
                // Of what is no request nginx tells as much as it has read; and whether it
                // answered nothing to this one, or closed before it, nobody knows.
                let is_request = |line: &&str| {
                    !line.split(|c: char| !c.is_ascii_digit()).any(|word| matches!(word, "400" | "414" | "444" | "505"))
                };
                for line in text.lines().filter(is_request) {
                    let line = line.replace(side.address, NGINX.address);
                    // How long it is until a time of day differs in each second.
                    let line = if line.contains("/day/") { differences::without_age(&line) } else { line };
                    *count.entry(format!("{}: {line}", file.file_name().display())).or_default() += step;
                }
            }
        }
        // What is no nginx.conf has its error log elsewhere.
        let has_errors = self.prefix.join(ours.name).join("error.log").exists();
        for (side, step) in [(&NGINX, 1), (ours, -1)].into_iter().filter(|_| has_errors) {
            let text = fs::read(self.prefix.join(side.name).join("error.log")).unwrap_or_default();
            for line in String::from_utf8_lossy(&text).lines().filter_map(of_request) {
                let line = line.replace(side.address, NGINX.address);
                let line = self.without_own_folder(&line, side);
                *count.entry(format!("error.log: {line}")).or_default() += step;
            }
        }
        let lines = count.iter().filter(|(_, times)| **times != 0).take(10);
        let told: String = lines.fold(String::new(), |mut told, (line, times)| {
            let side = if *times > 0 { NGINX.name } else { ours.name };
            let _ = writeln!(told, "  {} times more from {side}: {line}", times.abs());
            told
        });
        (!told.is_empty()).then(|| format!("lines of the logs:\n{told}"))
    }

    /// The line with what one of them has for itself as nginx has it: the folder below that
    /// of both, whatever the folders above are called.
    fn without_own_folder(&self, line: &str, side: &Side) -> String {
        let of = |side: &Side| format!("{}/", self.prefix.join(side.name).display());
        line.replace(&of(side), &of(&NGINX))
    }

    /// Ends them.
    pub(crate) fn stop(self) {
        drop(self.kept);
        for running in self.running {
            running.stop();
        }
    }
}

/// What a line of an error log says of a request that fails, without the time, the
/// connection, and how much too early it came.
fn of_request(line: &str) -> Option<String> {
    let (_, said) = line.split_once(" [error] ")?.1.split_once(" *")?;
    let (_, said) = said.split_once(' ')?;
    // Of what is no request nginx tells as much as it has read.
    if said.starts_with("client sent") || said.contains("while reading PROXY protocol") {
        return None;
    }
    // What was begun last is told, be it for a copy of the request.
    let of_certificate = said.starts_with("upstream SSL certificate").then(|| said.split_once(", client: "));
    let said = match of_certificate.flatten() {
        Some((what, of)) => &*format!("{}, client: {of}", what.split(" while ").next().unwrap_or_default()),
        None => said,
    };
    // What a program says of errors behind the head that answers HEAD (docs/differences.md).
    let behind_head = said.contains(" while reading upstream, ") && said.contains("request: \"HEAD ");
    if behind_head && said.starts_with("FastCGI sent in stderr: ") {
        return None;
    }
    // What a page does wrong is seen in its answer here (docs/differences.md).
    let of_page = said.contains("SSI command")
        || said.starts_with("no \"charset_map\"")
        || said.contains("while sending response to client");
    // Nor is a link that may not be followed told of in the words of the call.
    if of_page || said.contains("/www/links/") {
        return None;
    }
    // Control characters are told as they came, so that the line ends there.
    if !said.contains(", client: ") || said.contains("\\x0") {
        return None;
    }
    // Nor is a file in a file told apart from one that is not there.
    let said = &said.replace("(20: Not a directory)", "(2: No such file or directory)");
    // What is no more than a link is forbidden (docs/differences.md).
    let said = &said.replace("openat() ", "open() ");
    let said = &said.replace("(40: Too many levels of symbolic links)", "(13: Permission denied)");
    // What it did last for a request within this one is told of this one, too.
    let said = &said.replace(" while sending to client", "").replace(" while sending response to client", "");
    // Nor from where a redirection came that is one too many.
    let cycle = said.starts_with("rewrite or internal redirection cycle");
    let said = &if cycle { said.replace(" while reading response header from upstream", "") } else { said.clone() };
    // What was expected newer ones tell.
    let slice = said.split_once("slice response: ").and_then(|(_, rest)| rest.split_once(", expected: "));
    let expected = slice
        .and_then(|(_, rest)| rest.split_once(' '))
        .map_or(String::new(), |(told, _)| format!(", expected: {told}"));
    let said = &if expected.is_empty() { said.clone() } else { said.replacen(&expected, "", 1) };
    let excess = said.split_once(", excess: ").and_then(|(before, after)| {
        let end = after.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        Some(format!("{before}, excess{}", &after[end..]))
    });
    Some(excess.unwrap_or_else(|| said.clone()))
}

/// A text of a configuration, with what differs between them filled in.
pub(crate) fn filled(text: &str, side: &Side) -> String {
    let text = text.replace("{process}", PROCESS).replace("{address}", side.address);
    text.replace("{scratch}", &scratch("nginx").to_string_lossy()).replace("{side}", side.name)
}

/// Copies what is in the site's folder, with what differs between them filled in.
fn configure(from: &Path, to: &Path, side: &Side) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            configure(&path, &to.join(name), side);
        } else if !["tree.txt", "requests.txt"].iter().any(|list| name == *list) {
            fs::write(to.join(name), filled(&fs::read_to_string(&path).unwrap(), side)).unwrap();
        }
    }
}

/// Whether nginx is compared with itself.
fn is_nginx_itself() -> bool {
    std::env::var_os("NEARSIDE_TWIN").is_some_and(|twin| twin == "nginx")
}

fn start(prefix: &Path, side: &Side, port: u16) -> Running {
    let itself = is_nginx_itself();
    // Where a site is there in TOML, too, one of ours serves that.
    let toml = prefix.join(side.name).join("site.toml");
    let mut command = match (side.name == NGINX.name || itself, side.name == OURS.name && toml.exists()) {
        (true, _) => Command::new(theirs::program()),
        (_, true) => Nearside::command(["serve", "--site"]),
        _ => Nearside::command(["nginx"]),
    };
    if side.name == OURS.name && toml.exists() && !itself {
        command.arg(&toml);
    } else {
        command.arg("-p").arg(prefix).arg("-c").arg(prefix.join(side.name).join("nginx.conf"));
        // Before its configuration is read it says things elsewhere.
        command.args(["-e", "stderr"]);
    }
    command.env("TZ", "LCL-5:30");
    if side.name == STACK.name && !itself {
        command.args(LINK);
    }
    let mut running = Running::start(&mut command);
    running.wait_until_open(&format!("{}:{port}", side.address));
    running
}

/// How these answers differ, other than on purpose.
fn difference(asked: &Asked, on: &str, answers: &[Answer; 3]) -> Option<String> {
    let [nginx, sockets, stack] = answers;
    [(&OURS, sockets), (&STACK, stack)].into_iter().find_map(|ours| difference_of(asked, on, nginx, ours))
}

/// How one of ours differs from nginx's.
fn difference_of(asked: &Asked, on: &str, nginx: &Answer, (side, ours): (&Side, &Answer)) -> Option<String> {
    let why = match asked.expected.filter(|_| !is_nginx_itself()) {
        Some(row) if row.is_kept(nginx, ours) => return None,
        Some(row) => format!("not as {row:?} says"),
        None => match differences::differing(nginx, ours, &asked.method) {
            names if names.is_empty() => return None,
            names => format!("they differ in {}", names.join(", ")),
        },
    };
    let mut told = format!("{} (on {on}): {why}\n", asked.line);
    let _ = writeln!(told, "  sent: {:?}", String::from_utf8_lossy(&asked.bytes[..asked.bytes.len().min(1_000)]));
    for (side, answer) in [(&NGINX, nginx), (side, ours)] {
        let _ = writeln!(told, "  {}: {:?} {}", side.name, answer.interim, answer.line);
        for (name, value) in &answer.fields {
            let _ = writeln!(told, "    {name}: {value}");
        }
        for (name, value) in &answer.trailers {
            let _ = writeln!(told, "    behind the body: {name}: {value}");
        }
        let kept = if answer.lives { "kept" } else { "closed" };
        let body = answer.plain_body();
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
        let _ = writeln!(told, "    {} bytes, {} without coding, {kept}: {shown:?}", answer.body.len(), body.len());
    }
    Some(told)
}

#[test]
fn a_checkout_may_lie_anywhere() {
    let long = "/".to_owned() + &"x".repeat(150);
    let builds = ["/srv/nearside/target/debug", "/a/nginx/target/debug", "/a b/target/debug", &long];
    let mut folders: Vec<PathBuf> = Vec::new();
    for build in builds {
        for temporary in ["/tmp", "/var/tmp", "/with a blank", &long] {
            let folder = scratch_of(Path::new(build), Path::new(temporary));
            let text = folder.to_str().expect("text");
            // What tests add: their folder, a file, and what makes its name their own.
            assert!(text.len() + 40 <= 107, "{text}");
            assert!(!text.contains(' ') && !text.contains("/nginx/") && !text.contains("/nearside/"), "{text}");
            folders.push(folder);
        }
    }
    folders.sort();
    folders.dedup();
    // The folder for temporary files is told apart where it is short, and each checkout is.
    assert_eq!(folders.len(), 2 * builds.len());
}
