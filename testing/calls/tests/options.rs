//! Options that are accepted and change nothing: each is counted by its name.

use posix::{Calls, Defaults, SocketTable};
use stack::{Config, LinkOffload, Seeds, Stack};
use wire::{Mac, Time};

fn with_socket(test: impl FnOnce(&mut Calls<'_>)) -> SocketTable {
    let seeds = Seeds { table: [0; 4], secret: [0; 4], timestamps: [0; 2] };
    let config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1_500);
    let mut stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
    let mut table = SocketTable::new(Defaults::default());
    let mut calls = Calls { stack: &mut stack, table: &mut table };
    calls.socket(3, true, true);
    test(&mut calls);
    table
}

#[test]
fn an_option_without_effect_is_counted_by_its_name() {
    let table = with_socket(|calls| {
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
            (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
            // These do something.
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR),
        ] {
            assert_eq!(calls.set_option(3, level, name, &1_i32.to_ne_bytes()), Ok(()), "{level} {name}");
        }
    });
    let counted: Vec<(&str, u64)> = table.options_without_effect().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("TCP_DEFER_ACCEPT", 1), ("TCP_KEEPIDLE", 1), ("TCP_QUICKACK", 1), ("SO_KEEPALIVE", 2)]);
    assert_eq!(table.figures().options_ignored, 5);
}

/// Whatever option is set: what is counted has a name.
#[test]
fn every_option_without_effect_has_a_name() {
    // 1, and as much as any has.
    let mut value = [0; 32];
    value[0] = 1;
    let table = with_socket(|calls| {
        for level in [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_IPV6] {
            for name in 0..256 {
                // What is refused is no matter here.
                let _ = calls.set_option(3, level, name, &value);
            }
        }
    });
    let named: u64 = table.options_without_effect().map(|(_, count)| count).sum();
    let all = table.options_without_effect().count() as u64;
    assert_eq!((named, all), (table.figures().options_ignored, 31), "of these each was set once");
}

/// What nothing here acts on is told as Linux tells it, and what would change packets is refused.
#[test]
fn options_without_effect_are_told_as_they_were_set() {
    let _ = with_socket(|calls| {
        let mut set = |level: i32, name: i32, value: i32| {
            let outcome = calls.set_option(3, level, name, &value.to_ne_bytes()).map_err(|error| error.0);
            let told = calls.option(3, level, name, 4).expect("it is told");
            (outcome, i32::from_ne_bytes(told.try_into().expect("a number")))
        };
        // Whole retransmissions, each of twice the time.
        for (asked, told) in
            [(-5, 0), (0, 0), (1, 1), (2, 3), (3, 3), (4, 7), (127, 127), (128, 247), (1 << 30, 29_887)]
        {
            assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, asked), (Ok(()), told), "{asked}");
        }
        for (asked, told) in [(-9, -1), (0, 60), (70, 70), (1_000, 120)] {
            assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_LINGER2, asked), (Ok(()), told), "{asked}");
        }
        assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_SYNCNT, 0), (Err(libc::EINVAL), 6));
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_BROADCAST, -3), (Ok(()), 1));
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_BROADCAST, 0), (Ok(()), 0));
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1), (Ok(()), 1));
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 0), (Err(libc::EPERM), 1));
        assert_eq!(set(libc::IPPROTO_IP, libc::IP_TTL, 64), (Ok(()), 64));
        assert_eq!(set(libc::IPPROTO_IP, libc::IP_TTL, 3), (Err(libc::ENOPROTOOPT), 64));
        assert_eq!(set(libc::IPPROTO_IP, libc::IP_TTL, 0), (Err(libc::EINVAL), 64));
        assert_eq!(set(libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1), (Err(libc::ENOPROTOOPT), 0));
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1), (Err(libc::ENOPROTOOPT), 0));
    });
}
