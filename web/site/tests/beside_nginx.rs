//! Random locations and names of hosts, beside nginx with the same: which are
//! refused, and what each path and each name finds. Without nginx on this machine
//! nothing is compared.

use pcre::{Matcher, Regex, RegexOptions};
use phases::{Location, Locations, NameError, Names, Pattern, Value};
use semantics::path::normalise;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NGINX: &str = "/usr/sbin/nginx";
const PORTS: [u16; 3] = [18_713, 18_714, 18_715];
const TREES: usize = 120;
const PATHS: usize = 40;

const EXPRESSIONS: [&str; 7] =
    ["~ \\.css$", "~* \\.CSS$", "~ ^/a/", "~ b", "~ /$", "~ ^/(?<first>[^/]+)/(?!\\k<first>)", "~* (a|B)\\1"];

/// The expressions, compiled.
fn compiled() -> Vec<Regex> {
    let one = |written: &&str| {
        let (modifier, pattern) = written.split_once(' ').unwrap();
        Regex::new(pattern.as_bytes(), RegexOptions { caseless: modifier == "~*" }).unwrap()
    };
    EXPRESSIONS.iter().map(one).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn path(&mut self) -> Vec<u8> {
        const PIECES: [&str; 6] = ["/", "a", "b", "/a", ".css", "/b/"];
        let mut path = b"/".to_vec();
        for _ in 0..self.below(5) {
            path.extend_from_slice(PIECES[self.below(PIECES.len())].as_bytes());
        }
        // nginx makes one slash of several before it looks.
        path.dedup_by(|one, other| (*one, *other) == (b'/', b'/'));
        path
    }

    fn locations(&mut self, depth: usize, outer: &[u8], next: &mut u32) -> Vec<Location> {
        let count = self.below(5) + usize::from(depth == 0);
        let mut one = |this: &mut Self| {
            let place = *next;
            *next += 1;
            let mut path = this.path();
            // Most of what is held begins as what holds it.
            if this.below(8) > 0 && outer.len() > 1 {
                path.splice(..1, outer.iter().copied());
            }
            let pattern = match this.below(6) {
                0 => Pattern::Exact(path.clone()),
                1 => Pattern::FirmPrefix(path.clone()),
                2 => {
                    let number = this.below(EXPRESSIONS.len());
                    let text = EXPRESSIONS[number].split(' ').next_back().unwrap_or_default();
                    Pattern::Expression(number as u32, text.into())
                }
                _ => Pattern::Prefix(path.clone()),
            };
            let inner =
                if depth < 2 && this.below(4) == 0 { this.locations(depth + 1, &path, next) } else { Vec::new() };
            Location { pattern, place, inner }
        };
        (0..count).map(|_| one(self)).collect::<Vec<_>>()
    }
}

/// As nginx writes them; each answers with its place.
fn written(locations: &[Location], text: &mut String) {
    for location in locations {
        let pattern = match &location.pattern {
            Pattern::Exact(path) => format!("= {}", String::from_utf8_lossy(path)),
            Pattern::Prefix(path) => String::from_utf8_lossy(path).into_owned(),
            Pattern::FirmPrefix(path) => format!("^~ {}", String::from_utf8_lossy(path)),
            Pattern::Expression(number, _) => EXPRESSIONS[*number as usize].to_owned(),
            Pattern::Named(name) => format!("@{}", String::from_utf8_lossy(name)),
        };
        let _ = write!(text, "location {pattern} {{ return 200 \"{}\"; ", location.place);
        written(&location.inner, text);
        text.push_str("}\n");
    }
}

/// A folder of its own, gone with the value, and a port.
struct Folder(PathBuf, u16);

impl Folder {
    /// None where there is no nginx.
    fn new(name: &str, port: u16) -> Option<Self> {
        if !Path::new(NGINX).exists() {
            eprintln!("left out: there is no nginx here");
            return None;
        }
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Some(Self(path, port))
    }

    fn write(&self, servers: &str) -> PathBuf {
        let path = self.0.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log stderr crit;\n\
             events {{}}\nhttp {{ access_log off; default_type text/plain;\n{servers}}}\n",
            folder = self.0.display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    fn nginx(&self, path: &Path) -> Command {
        let mut nginx = Command::new(NGINX);
        nginx.args(["-e", "stderr", "-p"]).arg(&self.0).arg("-c").arg(path).stdin(Stdio::null());
        nginx.stdout(Stdio::null()).stderr(Stdio::null());
        nginx
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nginx with `servers`, and waits until it takes connections.
fn start(folder: &Folder, servers: &str) -> Running {
    let path = folder.write(servers);
    let nginx = Running(folder.nginx(&path).spawn().unwrap());
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", folder.1)).is_ok() {
            return nginx;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nginx does not come up");
}

/// A connection; nginx ends it after a thousand requests.
fn connect(folder: &Folder) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(("127.0.0.1", folder.1)).unwrap())
}

/// What nginx answers for `path` of the server `host`: a place, or none.
fn ask(stream: &mut BufReader<TcpStream>, host: &str, path: &[u8]) -> Option<u32> {
    let (status, body) = exchange(stream, host, path);
    (status == 200).then(|| String::from_utf8_lossy(&body).parse().unwrap())
}

/// A request, and the status and body of its answer.
fn exchange(stream: &mut BufReader<TcpStream>, host: &str, path: &[u8]) -> (u16, Vec<u8>) {
    let path = String::from_utf8_lossy(path);
    // In one write: a second waits for the acknowledgement of the first.
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "nginx closed the connection");
        let lower = line.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        } else if let Some(rest) = lower.strip_prefix("content-length: ") {
            length = rest.trim().parse().unwrap();
        } else if lower == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, body)
}

#[test]
fn random_locations_are_found_as_nginx_finds_them() {
    let Some(folder) = Folder::new("locations", PORTS[0]) else { return };
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let port = folder.1;
    let (mut servers, mut trees) = (String::new(), Vec::new());
    let mut refused = 0;
    for _ in 0..TREES {
        let tree = random.locations(0, b"", &mut 0);
        let mut text = String::new();
        written(&tree, &mut text);
        let ours = Locations::compile(&tree);
        let alone = folder.write(&format!("server {{ listen 127.0.0.1:{port};\n{text}}}\n"));
        let theirs = folder.nginx(&alone).arg("-t").status().unwrap().success();
        assert_eq!(ours.is_ok(), theirs, "{ours:?}\n{text}");
        match ours {
            Err(_) => refused += 1,
            Ok(ours) => {
                let name = trees.len();
                let _ = writeln!(servers, "server {{ listen 127.0.0.1:{port}; server_name t{name};\n{text}}}");
                trees.push((ours, text));
            }
        }
    }
    assert!(refused > 5 && trees.len() > 50, "{refused} refused, {} taken", trees.len());
    let _nginx = start(&folder, &servers);
    let (regexes, mut matcher) = (compiled(), Matcher::new().unwrap());
    let mut found = 0;
    for (name, (ours, text)) in trees.iter().enumerate() {
        let mut stream = connect(&folder);
        for _ in 0..PATHS {
            let path = random.path();
            let place = ours.find(&path, |number| matcher.find(&regexes[number as usize], &path).unwrap().is_some());
            let theirs = ask(&mut stream, &format!("t{name}"), &path);
            assert_eq!(place, theirs, "{}\n{text}", String::from_utf8_lossy(&path));
            found += usize::from(place.is_some());
        }
    }
    assert!(found > trees.len() * PATHS / 4, "{found} found");
}

#[test]
fn random_names_are_found_as_nginx_finds_them() {
    const LABELS: [&str; 5] = ["a", "b", "x", "example", "org"];
    const HOSTS: u16 = 40;
    let Some(folder) = Folder::new("names", PORTS[1]) else { return };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let labels = |random: &mut Random| {
        let count = 1 + random.below(4);
        (0..count).map(|_| LABELS[random.below(LABELS.len())]).collect::<Vec<_>>().join(".")
    };
    let (mut names, mut servers) = (Names::default(), String::new());
    // The first is for everybody else.
    let _ = writeln!(servers, "server {{ listen 127.0.0.1:{}; return 200 0; }}", folder.1);
    for place in 1..=HOSTS {
        let name = match random.below(5) {
            0 => format!("*.{}", labels(&mut random)),
            1 => format!("{}.*", labels(&mut random)),
            2 => format!(".{}", labels(&mut random)),
            _ => labels(&mut random),
        };
        // nginx leaves the second of two out, with a warning.
        match names.add(&name, place) {
            Ok(()) => {}
            Err(NameError::Twice(_)) => continue,
            Err(why) => panic!("{why}"),
        }
        let _ =
            writeln!(servers, "server {{ listen 127.0.0.1:{}; server_name {name}; return 200 {place}; }}", folder.1);
    }
    let _ = writeln!(servers, "server {{ listen 127.0.0.1:{}; server_name ~x; return 200 99; }}", folder.1);
    names.add_expression(0, 99);
    let _nginx = start(&folder, &servers);
    let (x, mut matcher) = (Regex::new(b"x", RegexOptions::default()).unwrap(), Matcher::new().unwrap());
    let mut found = 0;
    let mut stream = connect(&folder);
    for _ in 0..900 {
        let mut host = labels(&mut random);
        match random.below(4) {
            0 => host.make_ascii_uppercase(),
            1 => host.push_str(":80"),
            2 => host.push('.'),
            _ => {}
        }
        let place = names.find(host.as_bytes(), |_, name| matcher.find(&x, name).unwrap().is_some());
        assert_eq!(Some(u32::from(place)), ask(&mut stream, &host, b"/"), "{host}\n{servers}");
        found += usize::from(place != 0 && place != 99);
    }
    assert!(found > 200, "{found} found");
}

/// What a target's path is: the same for both, or refused by both.
#[test]
fn random_paths_are_what_nginx_makes_of_them() {
    const PIECES: [&str; 20] = [
        "/", "/", "/", ".", "..", "a", "%2e", "%2E%2e", "%2f", "%41", "%3f", "%23", "%25", "%20", "%", "%0", "%00",
        "\\", "%c3%a9", "+",
    ];
    let Some(folder) = Folder::new("paths", PORTS[2]) else { return };
    let servers = format!("server {{ listen 127.0.0.1:{}; location / {{ return 200 \"$uri\"; }} }}\n", folder.1);
    let _nginx = start(&folder, &servers);
    let mut random = Random(0xbf58_476d_1ce4_e5b9);
    let (mut refused, mut taken) = (0, 0);
    let mut stream = connect(&folder);
    for _ in 0..900 {
        let count = random.below(7);
        let raw: String = ["/"].into_iter().chain((0..count).map(|_| PIECES[random.below(PIECES.len())])).collect();
        let mut path = b"/".to_vec();
        let mut rest = Vec::new();
        let ours = normalise(raw.as_bytes(), &mut rest).ok().map(|()| {
            path.append(&mut rest);
            path
        });
        let (status, body) = exchange(&mut stream, "a", raw.as_bytes());
        let theirs = (status == 200).then_some(body);
        assert_eq!(ours, theirs, "{raw}: {status}");
        if ours.is_none() {
            assert_eq!(status, 400, "{raw}");
            // nginx closes the connection then.
            stream = connect(&folder);
        }
        refused += usize::from(ours.is_none());
        taken += usize::from(ours.is_some());
    }
    assert!(refused > 100 && taken > 300, "{refused} refused, {taken} taken");
}

/// What stands in a value is text, or wrong, for both; the words are equal.
#[test]
fn random_values_are_refused_in_nginxs_words() {
    const PIECES: [&str; 12] = ["$", "{", "}", "$uri", "${uri}", "$1", "x", "-", "_", " ", "$nothing", "${"];
    let Some(folder) = Folder::new("values", PORTS[0]) else { return };
    let mut random = Random(0xd134_2543_de82_ef95);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..150 {
        let count = 1 + random.below(4);
        let text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let ours = Value::parse(text.as_bytes(), &mut |name| (name == b"uri").then_some(0)).err();
        let path = folder.write(&format!("server {{ return 200 \"{text}\"; }}"));
        let told = folder.nginx(&path).arg("-t").stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let theirs = told.lines().find_map(|line| Some(line.split_once("[emerg] ")?.1.split_once(": ")?.1));
        // The place stands behind what is said while the file is read.
        let theirs = theirs.map(|said| said.split(" in /").next().unwrap_or(said).to_owned());
        assert_eq!(ours.as_ref().map(ToString::to_string), theirs, "{text}");
        refused += usize::from(ours.is_some());
        taken += usize::from(ours.is_none());
    }
    assert!(refused > 20 && taken > 20, "{refused} refused, {taken} taken");
}
