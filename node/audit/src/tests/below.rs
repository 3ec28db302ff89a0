//! Numbers below zero: what the catalogue says of them is what a kernel does, asked in a network
//! namespace of its own.

use super::server;
use crate::advice::read;
use crate::value::below_zero;
use crate::{Role, Verdict, judge_lines};
use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

/// Says that this process is in the namespace.
const INSIDE: &str = "NEARSIDE_AUDIT_NAMESPACE";

/// More than the bounds that are set here, and fewer than any that the kernel has itself.
const MANY: usize = 200;

fn set(key: &str, value: &str) {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    fs::write(&path, value).unwrap_or_else(|why| panic!("{path}: {why}"));
    let taken = fs::read_to_string(&path).expect(&path);
    assert_eq!(taken.trim(), value, "{key}");
}

/// The timers, in hundredths of a second, of this namespace's connections in a state:
/// `/proc/net/tcp`, the fourth and the sixth column.
fn timers(state: &str) -> Vec<u64> {
    let table = fs::read_to_string("/proc/net/tcp").expect("there is TCP");
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(3);
        (words.next()? == state).then_some(())?;
        u64::from_str_radix(words.nth(1)?.split_once(':')?.1, 16).ok()
    };
    table.lines().skip(1).filter_map(row).collect()
}

const FIN_WAIT_2: &str = "05";
const TIME_WAIT: &str = "06";

/// Connections that this side closed first, and the other after it where `both`.
fn close(count: usize, both: bool) -> Vec<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("it is bound");
    let mut kept = Vec::new();
    for _ in 0..count {
        let near = TcpStream::connect(address).expect("a connection");
        let (far, _) = listener.accept().expect("it is there");
        drop(near);
        if !both {
            kept.push(far);
        }
    }
    kept
}

/// Datagrams that a queue takes from a sender that does not wait.
fn queued() -> usize {
    let address = SocketAddr::from_abstract_name("queue").expect("a short name");
    let _taker = UnixDatagram::bind_addr(&address).expect("nobody else has it");
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect_addr(&address).expect("it is there");
    sender.set_nonblocking(true).expect("a socket");
    (0..MANY).take_while(|_| sender.send(b"x").is_ok()).count()
}

/// Each is asked beside a number above zero, which is the bound that it says.
fn asked_inside() {
    set("net.ipv4.tcp_max_tw_buckets", "50");
    close(MANY, true);
    let bounded = timers(TIME_WAIT).len();
    assert!(bounded <= 52, "{bounded}");
    set("net.ipv4.tcp_max_tw_buckets", "-1");
    close(MANY, true);
    // Whichever were there before may have come to their end meanwhile.
    assert!(timers(TIME_WAIT).len() > MANY / 2, "{}", timers(TIME_WAIT).len());

    set("net.unix.max_dgram_qlen", "10");
    let bounded = queued();
    set("net.unix.max_dgram_qlen", "-1");
    assert!(bounded < 20 && queued() == MANY, "{bounded}");

    set("net.ipv4.tcp_fin_timeout", "40");
    let kept = close(1, false);
    assert!(timers(FIN_WAIT_2).iter().all(|left| *left > 1_000), "{:?}", timers(FIN_WAIT_2));
    drop(kept);
    let mut ends = Vec::new();
    for value in ["0", "-1"] {
        set("net.ipv4.tcp_fin_timeout", value);
        let kept = close(1, false);
        // Gone already, or about to go.
        ends.push(timers(FIN_WAIT_2).into_iter().max().unwrap_or(0));
        drop(kept);
    }
    assert!(ends.iter().all(|left| *left < 1_000), "{ends:?}");

    set("net.ipv4.ip_forward", "-1");
    let forwards = fs::read_to_string("/proc/sys/net/ipv4/conf/all/forwarding").expect("it is there");
    assert_ne!(forwards.trim(), "0");
}

#[test]
fn numbers_below_zero_do_in_the_kernel_what_is_said_of_them() {
    if env::var_os(INSIDE).is_some() {
        asked_inside();
        return;
    }
    let own = env::current_exe().expect("this program");
    let name = "tests::below::numbers_below_zero_do_in_the_kernel_what_is_said_of_them";
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", script]).arg(&own).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
        command.output()
    };
    let may = inside("ip link set lo up && echo 1 >/proc/sys/net/ipv4/tcp_sack");
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: needs the right to make a network namespace, unshare and ip");
        return;
    }
    let output = inside("ip link set lo up && exec \"$0\" \"$@\"").expect("it was started before");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn what_was_seen_of_a_number_below_zero_is_said_of_it_and_of_no_other() {
    let of = |key: &str, value: &str| {
        let text = format!("{key} = {value}\n");
        let row = judge_lines(&server(), Role::WebKernel, &read("sysctl.conf", &text).expect("read")).rows.remove(0);
        (row.verdict, row.why)
    };
    for (key, verdict, word) in [
        ("net.ipv4.tcp_max_tw_buckets", Verdict::Dangerous, "no bound"),
        ("net.ipv4.tcp_max_syn_backlog", Verdict::WorseThanDefault, "listener's backlog alone"),
        ("net.unix.max_dgram_qlen", Verdict::WorseThanDefault, "senders' buffers"),
        ("net.ipv4.tcp_fin_timeout", Verdict::WorseThanDefault, "what 0 does"),
        ("net.ipv4.tcp_keepalive_time", Verdict::WorseThanDefault, "send none"),
        ("net.ipv4.tcp_keepalive_intvl", Verdict::WorseThanDefault, "send one"),
        ("net.ipv4.ip_forward", Verdict::WorseThanDefault, "the same as 1"),
        ("net.ipv4.tcp_fastopen", Verdict::Dangerous, "every bit"),
    ] {
        for value in ["-1", "-7 # off"] {
            let (found, why) = of(key, value);
            assert!(found == verdict && why.contains(word), "{key} = {value}: {found:?} {why}");
        }
        assert!(below_zero(key, "1").is_none() && below_zero(key, "-0").is_none() && below_zero(key, "-").is_none());
    }
}
