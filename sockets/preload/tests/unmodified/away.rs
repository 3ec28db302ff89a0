//! What the stack does while the program is away, computing or asleep. What depends on the machine's
//! time is tried several times.

use crate::lives::{PYTHON, connect, python};
use interop::{Nearside, Running, in_namespace, output, scratch, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

/// As long as a thread may sleep that takes turns while the program is away.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

const TRIES: u32 = 5;

/// Two are ready. The program is away for so long that somebody else takes turns, comes back, answers
/// the first, and is away again: as long as nobody makes a file, but no longer than a turn may be off.
const AMID: &str = "
listener = listen()
def compute(seconds, until=None):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until and os.path.exists(until):
            return True
    return False
def answer(at):
    pair = [listener.accept()[0] for _ in range(2)]
    both = select.epoll()
    for s in pair:
        select.select([s], [], [])
        both.register(s, select.EPOLLIN)
    assert len(both.poll(60, 2)) == 2
    compute(0.15)
    pair[0].sendall(b'x')
    say('came' if compute(0.25, sys.argv[1] + str(at)) else 'late')
    # What is not read would have the peers reset.
    for s in pair:
        s.recv(9)
# Each in a process of its own: what comes for other connections would have turns taken.
for at in range(int(sys.argv[2])):
    in_child(lambda: answer(at))
";

#[test]
fn who_comes_back_and_writes_and_goes_away_again_keeps_nobody_waiting() {
    in_namespace(&[PYTHON], || {
        let folder = scratch("run-away");
        fs::create_dir_all(&folder).unwrap();
        let has_come = folder.join("has-come-").display().to_string();
        (0..TRIES).for_each(|at| _ = fs::remove_file(format!("{has_come}{at}")));
        let keeper = Running::start(&mut python(AMID, &[&has_come, &TRIES.to_string()]));
        let tried = |word: &str| keeper.said().lines().filter(|line| *line == word).count();
        for at in 0..TRIES {
            let mut pair = [connect(), connect()];
            pair.iter_mut().for_each(|stream| stream.write_all(b"?").unwrap());
            pair[0].read_exact(&mut [0]).unwrap();
            fs::write(format!("{has_come}{at}"), "").unwrap();
            wait_for("its word", || tried("came") + tried("late") > at as usize);
            // Some frame of the kernel's own may come by at any time, and have turns taken as well.
            if tried("came").max(tried("late")) > TRIES as usize / 2 {
                break;
            }
        }
        assert!(tried("came") > tried("late"), "it mostly comes late");
    });
}

const SLEEPS: &str = "
listener = listen()
def serve():
    s, _ = listener.accept()
    s.sendall(b'x')
    time.sleep(float(sys.argv[1]))
    say('slept')
    s.recv(1)
for _ in range(int(sys.argv[2])):
    in_child(serve)
";

/// Somebody watches the link while the program sleeps: that is no gap.
#[test]
fn a_sleep_is_no_gap_between_turns() {
    in_namespace(&[PYTHON], || {
        let keeper = Running::start(&mut python(SLEEPS, &["1.5", &TRIES.to_string()]));
        let longest = || {
            let text = output(Nearside::command(["status", "--json"]).arg(keeper.id().to_string()));
            let page: Value = serde_json::from_str(&text).unwrap();
            page[0]["silos"][0]["program.longest_gap_ns"].as_u64()
        };
        for at in 0..TRIES {
            let mut stream = connect();
            stream.read_exact(&mut [0]).unwrap();
            wait_for("its sleep", || keeper.said().matches("slept").count() > at as usize);
            let gap = Duration::from_nanos(longest().expect("it has a seat"));
            assert!(gap > Duration::ZERO);
            if gap < LONGEST_SLEEP {
                return;
            }
        }
        panic!("a sleep is counted as a gap");
    });
}
