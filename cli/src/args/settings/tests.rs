mod changes;

use super::*;
use crate::args::{Command, parse};
use proptest::prelude::*;
use serve::{ServePath, ServePlan};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file of a test's own, gone with it.
struct Text(PathBuf);

impl Text {
    fn new(text: &[u8]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nearside-settings-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn line(arguments: &[&str]) -> Result<ServePlan, String> {
    match parse(["nearside", "serve"].iter().chain(arguments).copied()) {
        Ok(Command::Serve(plan)) => Ok(*plan),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(sentence(&error)),
    }
}

/// The plan of a file, with these arguments beside it.
fn plan(text: &str, arguments: &[&str]) -> Result<ServePlan, String> {
    let file = Text::new(text.as_bytes());
    let with = line(&[&["--settings", file.path()], arguments].concat());
    with.map_err(|why| why.replace(file.path(), "FILE"))
}

fn refusal(text: &str) -> String {
    match plan(text, &["."]) {
        Ok(plan) => panic!("{text:?} was taken: {plan:?}"),
        Err(why) => why,
    }
}

/// What a plan is, but for where its settings came from.
fn shown(plan: &ServePlan) -> String {
    let ServePlan { server, path, settings, check, privileges, signals, pid_file, error_log, metrics, again: _ } = plan;
    format!(
        "{server:?} {path:?} {:?} {check} {privileges:?} {signals:?} {pid_file:?} {error_log:?} {metrics:?}",
        settings.given
    )
}

#[test]
fn a_file_means_what_the_command_line_does() {
    let text = r#"
        # Everything of this is served.
        folder = "/srv/www"
        listen = ["127.0.0.1:8080", "unix:/run/web.sock"]
        workers = 2
        max-connections = 5_000
        keep-alive-timeout = "10s"
        ipv6-only = true
        no-push = "off"
    "#;
    let typed = "/srv/www --listen 127.0.0.1:8080 --listen unix:/run/web.sock --workers 2 --max-connections 5000 \
                 --keep-alive-timeout 10s --ipv6-only --no-push off";
    let typed: Vec<&str> = typed.split_whitespace().collect();
    assert_eq!(shown(&plan(text, &[]).unwrap()), shown(&line(&typed).unwrap()));
    // One of a list, and a flag that is not set.
    let typed = line(&["--respond", "text:x", "--listen", "81"]).unwrap();
    assert_eq!(shown(&plan("respond = 'text:x'\nlisten = 81\nipv6-only = false", &[]).unwrap()), shown(&typed));
    assert!(plan("respond = '1'", &[]).unwrap().settings.file.is_some());
    // A name that looks like an option.
    let folder = plan("folder = '-x'", &[]).unwrap();
    assert_eq!(shown(&folder), shown(&line(&["./-x"]).unwrap()));
}

#[test]
fn the_command_line_wins() {
    let text = "folder = '/srv/www'\nlisten = ['80', '81']\nworkers = 3\nidle = 'spin'";
    let merged = plan(text, &["--listen", "82", "--respond", "text:x"]).unwrap();
    let typed = line(&["--listen", "82", "--respond", "text:x", "--workers", "3", "--idle", "spin"]).unwrap();
    assert_eq!(shown(&merged), shown(&typed));
    // What stands for the same as what is typed.
    let link = ["--link", "tap:x", "--addr", "10.0.0.2/24", "."];
    let merged = plan("core = 1", &[&link[..], &["--silos", "2"]].concat()).unwrap();
    assert_eq!(shown(&merged), shown(&line(&[&link[..], &["--silos", "2"]].concat()).unwrap()));
}

#[test]
fn what_makes_no_sense_is_told_with_its_line_and_the_nearest_name() {
    let mut other = Vec::new();
    for (text, told) in [
        ("\n\nidel = 'spin'", "FILE:3: there is no setting \"idel\"; is it \"idle\"?"),
        ("max_connections = 1", "FILE:1: there is no setting \"max_connections\"; is it \"max-connections\"?"),
        ("\nqqq = 1", "FILE:2: there is no setting \"qqq\""),
        ("help = true", "FILE:1: there is no setting \"help\""),
        ("workers = true", "FILE:1: workers is text or a number, as in workers = \"N|auto\"; this is of type boolean"),
        ("listen = [1.5]", "FILE:1: listen is text, a number, or a list of them"),
        ("workers = [1]", "this is of type array"),
        ("workers = 0x10", "this is of type integer"),
        ("[workers]\na = 1", "FILE:1: workers is text or a number"),
        ("ipv6-only = 'yes'", "FILE:1: ipv6-only is true or false; this is of type string"),
        ("settings = 'x'", "FILE:1: settings is for the command line"),
        ("take-over = 'x'", "FILE:1: take-over is for the command line"),
        ("check = true", "FILE:1: check is for the command line"),
        ("a = 1\na = 2", "FILE:2: duplicate key"),
        ("folder = 'x\n", "FILE:1: "),
        ("\nidle = 'sleepy'", "FILE:2: invalid value 'sleepy' for '--idle <POLICY>': expected spin, spin:SPIN"),
        ("accept = 'lest'", "FILE:1: invalid value 'lest' for '--accept <MODEL>'"),
        ("workers = -1", "FILE:1: invalid value '-1' for '--workers <N|auto>': write auto"),
        ("idle = ''", "FILE:1: "),
        ("respond = \"a\\u0000b\"", "FILE:1: respond has a NUL in it"),
        // Of two that do not go together, or one that needs another.
        (
            "\nworkers = 1\nlink = 'tap:x'\naddr = '10.0.0.2/24'",
            "the argument '--workers <N|auto>' cannot be used with '--link <LINK>' \
             (link is set at FILE:3, workers is set at FILE:2)",
        ),
        ("silos = 2", "--link <LINK>"),
        (
            "\nidle = 'sleep:50'",
            "--idle sleep:50us needs --link: over kernel sockets the kernel wakes whom it has work \
                                 for (idle is set at FILE:2)",
        ),
    ] {
        let said = refusal(text);
        if !said.contains(told) {
            other.push((text, said));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    // The same as on the command line, but for the place.
    let typed = line(&[".", "--idle", "sleepy"]).unwrap_err();
    assert_eq!(refusal("idle = 'sleepy'"), format!("FILE:1: {typed}"));
    assert_eq!(plan("idle = 'spin'", &[]).unwrap_err(), "give a folder to serve, or --respond");
}

#[test]
fn what_is_no_file_of_settings_is_told() {
    let told = |path: &str| line(&[".", "--settings", path]).unwrap_err();
    assert!(told("/nonexistent/x.toml").starts_with("cannot read the settings in /nonexistent/x.toml: No such file"));
    assert!(told("/").contains("this is not a plain file"));
    assert!(told("/dev/zero").contains("this is not a plain file"));
    let long = Text::new(&vec![b'\n'; FILE_MAX as usize + 1]);
    assert!(told(long.path()).contains("it is longer than 1048576 bytes"));
    let exact = Text::new(&vec![b'\n'; FILE_MAX as usize]);
    assert!(line(&[".", "--settings", exact.path()]).is_ok());
    let binary = Text::new(&[0xff, 0xfe, b'=']);
    assert!(told(binary.path()).contains("UTF-8"), "{}", told(binary.path()));
    // And a line without one is what it ever was.
    let help = parse(["nearside", "serve", "--settings", "/nonexistent", "--help"]).unwrap_err();
    assert_eq!(help.kind(), ErrorKind::DisplayHelp);
}

#[test]
fn names_that_differ_are_found_and_taken_over() {
    let mut one = plan("workers = 2\nidle = 'spin'", &["."]).unwrap().settings;
    let other = plan("workers = 2\nkeep-alive-timeout = '1s'\nlisten = ['81']", &["."]).unwrap().settings;
    assert_eq!(one.differing(&other), ["idle", "keep-alive-timeout", "listen"]);
    for name in ["idle", "listen", "keep-alive-timeout"] {
        one.adopt(name, &other);
    }
    assert_eq!((one.differing(&other), one.given.contains_key("idle")), (Vec::new(), false));
}

/// An option, with values of which some are none of its.
fn some_option() -> impl Strategy<Value = (String, String)> {
    let time = || "[0-9]{1,3}(s|ms|us|m|)";
    let size = || "[0-9]{1,4}[KMG]?";
    prop_oneof![
        time().prop_map(|value| ("keep-alive-timeout".to_owned(), value)),
        time().prop_map(|value| ("header-timeout".to_owned(), value)),
        time().prop_map(|value| ("drain-timeout".to_owned(), value)),
        size().prop_map(|value| ("max-connections".to_owned(), value)),
        size().prop_map(|value| ("cache-size".to_owned(), value)),
        size().prop_map(|value| ("sndbuf".to_owned(), value)),
        "[0-9]{1,5}".prop_map(|value| ("listen".to_owned(), value)),
        "[a-z0-9:\"\\\\ =-]{0,12}".prop_map(|value| ("idle".to_owned(), value)),
        "(spin|adaptive|adaptive:[0-9]{1,2}us)".prop_map(|value| ("idle".to_owned(), value)),
        "(on|off|yes)".prop_map(|value| ("no-delay".to_owned(), value)),
        "(auto|[0-9]{1,4})".prop_map(|value| ("workers".to_owned(), value)),
        "\\PC{0,8}".prop_map(|value| ("access-log".to_owned(), value)),
    ]
}

proptest! {
    /// The same options mean the same in a file and on the command line, and
    /// are refused alike.
    #[test]
    fn a_file_and_a_command_line_parse_the_same(options in prop::collection::vec(some_option(), 0..6)) {
        let options: BTreeMap<String, String> = options.into_iter().collect();
        let mut text = String::new();
        let mut typed = vec![".".to_owned()];
        for (name, value) in &options {
            let quoted = toml::Value::String(value.clone());
            writeln!(text, "{name} = {quoted}").unwrap();
            typed.push(format!("--{name}={value}"));
        }
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        match (line(&typed), plan(&text, &["."])) {
            (Ok(typed), Ok(read)) => prop_assert_eq!(shown(&typed), shown(&read)),
            (Err(_), Err(_)) => {}
            (typed, read) => prop_assert!(false, "{typed:?}\n{read:?}\n{text}"),
        }
    }

    /// Whatever is in a file, it is taken or refused.
    #[test]
    fn no_text_ends_the_program(text in "([a-z-]{1,12} ?= ?[\\[\\]{}'\"a-z0-9,._-]{0,12}\n){0,4}") {
        let _ = plan(&text, &["."]);
    }
}

/// A link's options need one, wherever it is named.
#[test]
fn a_link_may_be_in_the_file_and_its_options_on_the_command_line() {
    let read = plan("link = 'tap:near0'\naddr = '10.0.0.2/24'", &[".", "--silos", "2"]).unwrap();
    let ServePath::Link { host, listen, .. } = &read.path else { panic!("{read:?}") };
    assert_eq!((host.links.len(), listen.everywhere.as_slice()), (1, &[80][..]));
}
