//! What the kernel takes of a text, and what is read of it here: alike.

use super::server;
use crate::value::{Shape, Taken, known, take};
use crate::{Probe, Role, Verdict, rules};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Sebastiano Vigna's SplitMix64: the same values in each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.next() % all.len() as u64).unwrap_or(0)]
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "10",
    "60",
    "127",
    "128",
    "255",
    "256",
    "1000",
    "4096",
    "65535",
    "65536",
    "87380",
    "4194304",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "010",
    "08",
    "0x10",
    "0X1f",
    "0x",
    "0b1",
    "-1",
    "-0",
    "+1",
    "1e3",
    "1.5",
    "4,096",
    "16M",
    "1;",
    "1#x",
    "1x",
    "banana",
    "\"1\"",
    "'1'",
    "on",
    "",
    "-",
    "#",
    "0000000000000000000001",
    "１",
    "1\u{a0}",
];
const BLANKS: &[&str] = &[" ", " ", "  ", "\t", " \t ", "\u{b}", "\u{a0}"];
const TAILS: &[&str] = &["", "", "", " #x", "#x", " # never resend", "\t#x", " x", ";", " ;", " //", ",", " 1"];
const NAMES: &[&str] =
    &["reno", "cubic", "cubic #google", "CUBIC", "cubic#x", "cubic,reno", "no-such-one", "\"cubic\""];
const LISTS: &[&str] = &[
    "8080",
    "8080,9000-9010",
    "8080 #c",
    "8080, 9000",
    "9000-8000",
    "65535",
    "65536",
    "-1",
    "1-",
    "8080,",
    ",8080",
    "08080",
    "0x1f90",
    "8080-8080",
    "8080 9000",
    "1,,2",
    "",
];

/// A text of each kind that people write, for a sysctl of this shape.
fn text(dice: &mut Dice, shape: Shape) -> String {
    match shape {
        Shape::Name => dice.of(NAMES).to_owned(),
        Shape::Bitmap(_) => dice.of(LISTS).to_owned(),
        _ => {
            let count = match shape {
                Shape::Integers { most, .. } => most + usize::from(dice.next().is_multiple_of(4)),
                Shape::Ports(_) => 2,
                Shape::Semaphores => 4,
                _ => 1,
            };
            let mut text = dice.of(NUMBERS).to_owned();
            for _ in 1..count {
                text.push_str(dice.of(BLANKS));
                text.push_str(dice.of(NUMBERS));
            }
            text.push_str(dice.of(TAILS));
            text.trim_ascii().to_owned()
        }
    }
}

/// Asks the kernel, in a network namespace of its own: for each path and text
/// whether the text was taken, and what the file says then. `None` where no
/// namespace can be made.
fn asked(questions: &[(String, String)]) -> Option<Vec<(bool, String)>> {
    let mut script = String::new();
    for (path, text) in questions {
        let quoted = text.replace('\'', "'\\''");
        script.push_str(&format!(
            "old=$(cat {path}); if printf '%s\\n' '{quoted}' >{path} 2>/dev/null; then printf y; else printf n; fi; \
             cat {path} | tr '\\t\\n' '  '; echo; printf '%s\\n' \"$old\" >{path} 2>/dev/null\n"
        ));
    }
    let mut shell = Command::new("unshare")
        .args(["-n", "-i", "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = shell.stdin.take()?;
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = shell.wait_with_output().ok()?;
    let _ = writer.join();
    let answers: Vec<(bool, String)> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| (line.starts_with('y'), line.get(1..).unwrap_or_default().trim().to_owned()))
        .collect();
    (output.status.success() && answers.len() == questions.len()).then_some(answers)
}

/// Whether the kernel lets this process write a sysctl of a namespace.
fn may_ask() -> bool {
    let path = "/proc/sys/net/ipv4/tcp_sack".to_owned();
    asked(&[(path, "1".to_owned())]).is_some_and(|answers| answers[0].0)
}

/// What is a namespace's own, so that nobody else notices: of networks, and of
/// System V's queues and segments.
fn of_a_namespace(key: &str) -> bool {
    // What it takes depends on another one.
    if key == "net.ipv4.ipfrag_high_thresh" {
        return false;
    }
    let of_queues = ["kernel.shm", "kernel.msg", "kernel.sem"].iter().any(|start| key.starts_with(start));
    of_queues || key.starts_with("net.ipv4.") && !key.ends_with("_mem")
}

#[test]
fn what_the_kernel_takes_is_what_is_read() {
    if !may_ask() {
        eprintln!("left out: needs the right to make a network namespace, and unshare");
        return;
    }
    let sysctls: Vec<(&str, Shape)> = known().filter(|(key, _)| of_a_namespace(key)).collect();
    let mut dice = Dice(38);
    let mut questions = Vec::new();
    let mut read = Vec::new();
    // Each sysctl of the namespace is met about four times.
    for (key, shape) in sysctls.iter().cycle().take(sysctls.len() * 4) {
        let text = text(&mut dice, *shape);
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        if !std::path::Path::new(&path).exists() {
            continue;
        }
        questions.push((path, text.clone()));
        read.push((*key, *shape, text));
    }
    let answers = asked(&questions).expect("a namespace");
    let mut compared = 0;
    for ((key, shape, text), (taken, shows)) in read.iter().zip(&answers) {
        // Of the whole machine: not there in a namespace, so nothing was asked.
        if shows.is_empty() && *shape != Shape::Bitmap(65_536) {
            continue;
        }
        compared += 1;
        match take(of_this_kernel(key, *shape), text) {
            Taken::Refused(why) => assert!(!taken, "{key} = {text:?}: the kernel takes it as {shows}; {why}"),
            // Whether there is one of that name, the machine says.
            Taken::As(_) if *shape == Shape::Name => {}
            Taken::As(value) => {
                assert!(*taken, "{key} = {text:?}: the kernel refuses it, and it was read as {value}");
                // Lists are shown sorted, and times in ticks.
                if !matches!(shape, Shape::Bitmap(_) | Shape::Milliseconds) {
                    assert!(starts_with(shows, &value), "{key} = {text:?}: {shows} in force, and {value} was read");
                }
            }
        }
    }
    assert!(compared >= 300, "{compared} values were compared");
}

/// The shape that the sysctl has in the kernel that was asked.
fn of_this_kernel(key: &str, known: Shape) -> Shape {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let evidence = crate::Evidence::of(&[("proc/sys/kernel/osrelease", release.trim())]);
    crate::value::shape(key, &evidence).unwrap_or(known)
}

/// Whether the first words are the same.
fn starts_with(all: &str, first: &str) -> bool {
    let mut words = all.split_whitespace();
    first.split_whitespace().all(|word| words.next() == Some(word))
}

#[test]
fn values_are_read_as_they_were_measured() {
    let one = Shape::Integers { most: 1, low: 0, high: 255 };
    let three = Shape::Integers { most: 3, low: 1, high: i128::from(i32::MAX) };
    for (shape, text, expected) in [
        (one, "0 #better than resend", Some("0")),
        (one, "010", Some("8")),
        (one, "0x10 x", Some("16")),
        (one, "1#x", None),
        (one, "1x", None),
        (one, "256", None),
        (one, "", None),
        (three, "4096 87380 4194304 #rx", Some("4096 87380 4194304")),
        (three, "4096 87380#c", None),
        (three, "4096\t87380", Some("4096 87380")),
        (Shape::Name, "cubic #google", None),
        (Shape::Bitmap(65_536), "8080 #c", None),
        (Shape::Bitmap(65_536), "8080,9000-9010", Some("8080,9000-9010")),
        (Shape::Ports(1_024), "1024 65000 # all", Some("1024 65000")),
        (Shape::Ports(1_024), "1 65000", None),
    ] {
        let found = match take(shape, text) {
            Taken::As(value) => Some(value),
            Taken::Refused(_) => None,
        };
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}

/// Whatever stands in the place of a value: no rule says that it is well, or
/// the default, of what is no value of anything.
#[test]
fn no_rule_lets_a_word_stand_that_is_no_value() {
    let evidence = server();
    // Names that somebody chose, and files that nobody writes.
    const NAMES: [&str; 16] = [
        "idle governor",
        "idle driver",
        "isolated cores",
        "cores without ticks",
        "cores off line",
        "PerformanceProfile nodeSelector",
        "KubeletConfig machineConfigPoolSelector",
        "RuntimeClass handler",
        "tuned cmdline_crash",
        "tuned include",
        "tuned profile",
        "Pod runtimeClassName",
        "Pod quality of service",
        "nginx thread_pool",
        "nginx fstack_conf",
        "nginx listen",
    ];
    let mut lenient = Vec::new();
    // What a file may set; the others are found on a machine.
    for rule in rules().filter(|rule| !matches!(rule.probe, Probe::Each(_))) {
        for role in [Role::WebKernel, Role::Forwarder] {
            let settings = [super::setting(rule.key, "banana")];
            let report = crate::judge(&evidence, role, &settings);
            let row = &report.rows[0];
            if !NAMES.contains(&rule.key) && matches!(row.verdict, Verdict::Ok | Verdict::Unnecessary) {
                lenient.push(format!("{}: {}", rule.key, row.why));
            }
        }
    }
    lenient.dedup();
    assert_eq!(lenient, [""; 0]);
}
