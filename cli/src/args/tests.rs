use super::values::{BitRate, Count, MAX_SOURCE_ADDRESSES, Probability, Size, duration, nonzero_duration, port};
use super::*;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The plan of a command line that is written without the program's name.
fn plan(line: &str) -> Command {
    parse(std::iter::once("nearside").chain(line.split(' '))).expect(line)
}

/// What the user is told about a command line that makes no sense.
fn refusal(line: &str) -> String {
    match parse(std::iter::once("nearside").chain(line.split(' '))) {
        Ok(plan) => panic!("'{line}' was taken: {plan:?}"),
        Err(error) => error.to_string(),
    }
}

fn serve(line: &str) -> ServePlan {
    match plan(line) {
        Command::Serve(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn load(line: &str) -> LoadPlan {
    match plan(line) {
        Command::Load(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn value<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect(text)
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    definition().debug_assert();
}

#[test]
fn every_flag_has_help() {
    for command in definition().get_subcommands() {
        for flag in command.get_arguments() {
            assert!(flag.get_help().is_some(), "{} {}", command.get_name(), flag.get_id());
        }
        assert!(command.get_about().is_some(), "{}", command.get_name());
    }
}

#[test]
fn serve_has_working_defaults() {
    let plan = serve("serve ./site --link memif:/run/x.sock --addr 10.0.0.2/24");
    assert_eq!(plan.content, Content::Files("./site".into()));
    assert_eq!(plan.ports, [80]);
    assert_eq!(plan.cache_size, 256 << 20);
    assert_eq!(plan.symlinks, Symlinks::Off);
    assert_eq!(plan.access_log, AccessLog::Off);
    assert_eq!(plan.host.addresses, [value("10.0.0.2/24")]);
    assert_eq!(plan.host.max_connections, 100_000);
    assert_eq!(plan.host.idle, Idle::Adaptive);
    assert_eq!(plan.host.congestion, Congestion::Cubic);
    assert_eq!((plan.host.core, plan.host.faults, plan.host.capture), (None, None, None));
    let LinkSpec::Memif(memif) = plan.host.link else { panic!("not memif") };
    assert_eq!((memif.role, memif.id), (memif::Role::Server, 0));
}

#[test]
fn serve_takes_every_flag() {
    let plan = serve(
        "serve --respond 2649 --link tap:near0 --addr 10.0.0.2/24 --addr fd00::2/64 --gateway 10.0.0.1 \
         --gateway fd00::1 --mac 02:00:00:00:00:0a --core 3 --idle spin --congestion newreno --listen 8080 \
         --listen 80 --max-connections 1M --access-log access.log --capture a.pcapng --loss 1% --reorder 0.5% \
         --duplicate 2% --corrupt 3% --delay 10ms --rate 100M --seed 7 --status-page /run/page --json",
    );
    assert_eq!(plan.content, Content::Fixed(Respond::Size(2_649)));
    assert_eq!(plan.ports, [80, 8080]);
    assert_eq!(plan.access_log, AccessLog::File("access.log".into()));
    let host = plan.host;
    assert_eq!(host.link, LinkSpec::Tap("near0".into()));
    assert_eq!(host.gateways.len(), 2);
    assert_eq!(host.mac, Some(Mac([2, 0, 0, 0, 0, 10])));
    assert_eq!((host.core, host.idle, host.congestion), (Some(3), Idle::Spin, Congestion::Newreno));
    assert_eq!(host.max_connections, 1_000_000);
    let faults = host.faults.expect("asked for");
    assert_eq!((faults.loss, faults.reorder, faults.duplicate, faults.corrupt), (0.01, 0.005, 0.02, 0.03));
    assert_eq!((faults.delay, faults.rate, faults.seed), (Duration::from_millis(10), Some(100_000_000), 7));
    assert_eq!(host.status_page, Some("/run/page".into()));
    assert!(host.json);
}

#[test]
fn load_takes_short_flags_and_fills_in_the_rest() {
    let plan = load(
        "load http://10.0.0.2:8080/a?b=c -c 1k -d 2s -n 10k -H Accept:text/html --active 10 --close \
         --link memif:@x,role=server,id=3,ring=512,buffer=4096 --addr 10.0.0.1/24 --hgrm out.hgrm --timeout 1s",
    );
    assert_eq!(plan.target.address, "10.0.0.2:8080".parse().expect("an address"));
    assert_eq!((plan.target.host.as_str(), plan.target.path.as_str()), ("10.0.0.2:8080", "/a?b=c"));
    assert_eq!((plan.connections, plan.active, plan.requests), (1_000, 10, Some(10_000)));
    assert_eq!((plan.duration, plan.warmup), (Duration::from_secs(2), Duration::from_secs(1)));
    assert_eq!(plan.headers, [Header { name: "Accept".into(), value: "text/html".into() }]);
    assert_eq!(plan.sources, [value("10.0.0.1")]);
    assert_eq!(plan.host.max_connections, 1_000);
    assert!(plan.close);
    let LinkSpec::Memif(memif) = plan.host.link else { panic!("not memif") };
    assert_eq!(memif.role, memif::Role::Server);
    assert_eq!((memif.id, memif.log2_ring_size, memif.buffer_size), (3, 9, 4_096));
}

#[test]
fn what_makes_no_sense_together_is_refused_with_the_reason() {
    let host = "--link memif:/x --addr 10.0.0.1/24";
    for (line, reason) in [
        ("serve --link memif:/x --addr 10.0.0.1/24".to_owned(), "<FOLDER>"),
        (format!("serve . --respond 1 {host}"), "cannot be used with"),
        ("serve .".to_owned(), "--link"),
        (format!("serve . {host} --gateway 10.0.1.1"), "in no subnet"),
        (format!("serve . {host} --gateway 10.0.0.3 --gateway 10.0.0.4"), "more than one gateway"),
        (format!("serve . {host} --max-connections 20M"), "at most 15000000"),
        (format!("load http://10.0.0.2/ {host} -c 5 --active 6"), "more than the 5"),
        (format!("load http://10.9.0.2/ {host}"), "in no subnet of --addr, and there is no --gateway"),
        (format!("load http://[fd00::2]/ {host}"), "family"),
        (format!("load http://10.0.0.2/ {host} --source fd00::1"), "different families"),
        (format!("load http://10.0.0.2/ {host} -d 0s"), "longer than zero"),
        ("demo --cores 1,1".to_owned(), "two different cores"),
    ] {
        let told = refusal(&line);
        assert!(told.contains(reason), "{line}: {told}");
    }
}

#[test]
fn demo_is_short_only_if_asked() {
    let Command::Demo(long) = plan("demo") else { panic!("not demo") };
    let Command::Demo(quick) = plan("demo --quick --cores 1,0") else { panic!("not demo") };
    assert!(long.rounds > quick.rounds && long.duration > quick.duration);
    assert_eq!(quick.cores, Some((1, 0)));
}

#[test]
fn manual_and_completions_come_from_the_same_definition() {
    let mut page = Vec::new();
    clap_mangen::Man::new(definition()).render(&mut page).expect("writing to memory");
    assert!(String::from_utf8_lossy(&page).contains("nearside\\-serve"));
    let mut script = Vec::new();
    clap_complete::generate(clap_complete::Shell::Bash, &mut definition(), "nearside", &mut script);
    assert!(String::from_utf8_lossy(&script).contains("--cache-size"));
}

#[test]
fn sizes_are_binary_and_counts_are_decimal() {
    assert_eq!(value::<Size>("64K"), Size(65_536));
    assert_eq!(value::<Size>("1.5m"), Size(1_572_864));
    assert_eq!(value::<Size>("0"), Size(0));
    assert_eq!(value::<Count>("10k"), Count(10_000));
    assert_eq!(value::<Count>("2.3M"), Count(2_300_000));
    assert_eq!(value::<BitRate>("2.5G"), BitRate(2_500_000_000));
    assert_eq!(value::<BitRate>("100Mbit"), BitRate(100_000_000));
    for bad in ["", "K", "-1", "1e3", "inf", "1 K", "1.5", "9999999T", "1KB", "0x10", "1..5K", "+1"] {
        assert!(bad.parse::<Size>().is_err(), "{bad}");
    }
    assert!("0".parse::<Count>().is_err());
    assert!("999".parse::<BitRate>().is_err());
}

#[test]
fn durations_need_a_unit() {
    assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
    assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
    assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
    assert_eq!(duration("0s"), Ok(Duration::ZERO));
    assert_eq!(nonzero_duration("1us"), Ok(Duration::from_micros(1)));
    for bad in ["10", "", "s", "-1s", "1e9s", "9000h", "nans", "1 s"] {
        assert!(duration(bad).is_err(), "{bad}");
    }
    assert!(nonzero_duration("0ms").is_err());
}

#[test]
fn percentages_need_their_sign() {
    assert_eq!(value::<Probability>("0.1%").get(), 0.001);
    assert_eq!(value::<Probability>("100%").get(), 1.0);
    for bad in ["1", "101%", "-1%", "%", "NaN%"] {
        assert!(bad.parse::<Probability>().is_err(), "{bad}");
    }
}

#[test]
fn subnets_know_their_members() {
    let v4: Cidr = value("10.0.0.2/24");
    assert!(v4.contains(Ipv4Addr::new(10, 0, 0, 200).into()));
    assert!(!v4.contains(Ipv4Addr::new(10, 0, 1, 2).into()));
    assert!(!v4.contains("fd00::1".parse().expect("an address")));
    assert!(value::<Cidr>("10.0.0.2/0").contains(Ipv4Addr::new(192, 0, 2, 1).into()));
    assert!(!value::<Cidr>("10.0.0.2/32").contains(Ipv4Addr::new(10, 0, 0, 3).into()));
    assert!(value::<Cidr>("fd00::2/0").contains("2001:db8::1".parse().expect("an address")));
    for bad in ["10.0.0.2", "10.0.0.2/33", "fd00::1/129", "x/24", "0.0.0.0/8", "224.0.0.1/4", "::/64", "1.2.3.4/-1"] {
        assert!(bad.parse::<Cidr>().is_err(), "{bad}");
    }
}

#[test]
fn address_ranges_are_inclusive_and_bounded() {
    let list = |text| value::<AddressRange>(text).iter().map(|a| a.to_string()).collect::<Vec<_>>();
    assert_eq!(list("10.0.0.9"), ["10.0.0.9"]);
    assert_eq!(list("10.0.0.254-10.0.1.1"), ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]);
    assert_eq!(list("10.0.0.8/30"), ["10.0.0.9", "10.0.0.10"]);
    assert_eq!(list("10.0.0.8/31"), ["10.0.0.8", "10.0.0.9"]);
    assert_eq!(list("fd00::1-fd00::2"), ["fd00::1", "fd00::2"]);
    assert_eq!(value::<AddressRange>("10.1.0.0/16").count(), 65_534);
    assert_eq!(value::<AddressRange>("fd00::/112").count(), MAX_SOURCE_ADDRESSES);
    for bad in ["", "10.0.0.2-10.0.0.1", "10.0.0.1-fd00::1", "10.0.0.0/8", "::/0", "10.0.0.0/33", "-"] {
        assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
    }
}

#[test]
fn links_say_what_is_wrong_with_them() {
    for (bad, reason) in [
        ("memif", "kind is missing"),
        ("memif:", "socket path"),
        ("memif:/x,role=master", "server or client"),
        ("memif:/x,color=red", "no key `color`"),
        ("tap:", "1 to 15 characters"),
        ("tap:a-name-that-is-too-long", "1 to 15 characters"),
        ("pigeon:coop", "'pigeon'"),
    ] {
        let told = LinkSpec::parse(bad, memif::Role::Client).expect_err(bad).to_string();
        assert!(told.contains(reason), "{bad}: {told}");
    }
}

#[test]
fn targets_are_http_and_numeric() {
    let target: Target = value("http://[fd00::2]");
    assert_eq!((target.address.to_string().as_str(), target.path.as_str()), ("[fd00::2]:80", "/"));
    assert_eq!(value::<Target>("http://10.0.0.2?q#f").path, "/?q");
    for bad in ["https://10.0.0.2/", "http://example.com/", "http://10.0.0.2/ö", "http:///", "http://10.0.0.2:0/", ""]
    {
        assert!(bad.parse::<Target>().is_err(), "{bad}");
    }
}

/// RFC 9110 section 5: what would let a header split the request is refused.
#[test]
fn headers_cannot_break_the_request() {
    let header: Header = value("X-A:  b c ");
    assert_eq!((header.name.as_str(), header.value.as_str()), ("X-A", "b c"));
    for bad in ["no colon", ": v", "a b: c", "A: b\r\nC: d", "Host: x", "content-length: 3", "A: \x7f"] {
        assert!(bad.parse::<Header>().is_err(), "{bad}");
    }
}

#[test]
fn fixed_answers_are_sizes_or_texts() {
    assert_eq!(value::<Respond>("64K"), Respond::Size(65_536));
    assert_eq!(value::<Respond>("text:64K"), Respond::Text("64K".into()));
    assert_eq!(value::<Respond>("hello"), Respond::Text("hello".into()));
    assert!("2G".parse::<Respond>().is_err());
}

#[test]
fn ethernet_addresses_are_unicast() {
    assert_eq!(value::<Mac>("02:00:5e:10:00:FF").to_string(), "02:00:5e:10:00:ff");
    for bad in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "2:0:0:0:0:1"] {
        assert!(bad.parse::<Mac>().is_err(), "{bad}");
    }
    assert!(port("0").is_err() && port("65536").is_err());
}
