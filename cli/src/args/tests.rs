mod numa;
mod tools;

use super::kernel::{Probes, buffer, file_mode};
use super::*;
use driver::Role;
use generator::{Form, LoadPath, Place, ProgressKind, ServerPlan, Task};
use host::drivers::{DriverSpec, LinkSpec};
use host::values::{AddressRange, BitRate, Cidr, Count, MAX_SOURCE_ADDRESSES, Size};
use host::values::{access_log, duration, nonzero_duration, pacing_rate, respond};
use host::{Cores, HostPlan, Silos, Workers};
use serve::{Control, KernelPlan, Listen, ServePath, TakeOver};
use server::{AccessLog, Content, Respond, Symlinks};
use silo::Idle;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;
use tcp::congestion::Algorithm;
use wire::Mac;

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
        Command::Serve(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

/// The plan of a server over a link, and its ports.
fn over_link(plan: &ServePlan) -> (&HostPlan, &[u16]) {
    match &plan.path {
        ServePath::Link { host, listen, .. } => (host, &listen.everywhere),
        ServePath::Kernel(plan) => panic!("{plan:?}"),
    }
}

fn over_sockets(line: &str) -> KernelPlan {
    match serve(line).path {
        ServePath::Kernel(plan) => plan,
        ServePath::Link { host, .. } => panic!("{host:?}"),
    }
}

fn load(line: &str) -> LoadPlan {
    match plan(line) {
        Command::Load(plan) => *plan,
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
    let Content::Directory(directory) = &plan.server.content else { panic!("no folder") };
    assert_eq!(directory.root, std::path::Path::new("./site"));
    assert_eq!((directory.cache_bytes, directory.symlinks), (256 << 20, Symlinks::Off));
    assert_eq!(plan.server.access_log, AccessLog::Off);
    assert_eq!(plan.server.limits.connections, 100_000);
    let (given, usual) = (&plan.server.timeouts, server::Timeouts::default());
    assert_eq!(format!("{given:?}"), format!("{usual:?}"), "the flags' defaults are the server's");
    let (host, ports) = over_link(&plan);
    assert_eq!(ports, [80]);
    assert_eq!(host.addresses, [value("10.0.0.2/24")]);
    assert_eq!(host.max_connections, 100_000);
    assert_eq!((host.idle, host.tx_delay, host.offload), (Idle::ADAPTIVE, Duration::ZERO, true));
    assert_eq!(host.congestion, Algorithm::Cubic);
    assert_eq!((&host.silos, &host.faults, &host.capture, host.mac), (&Silos::One, &None, &None, None));
    let [LinkSpec { driver: DriverSpec::Memif(memif), queues: None }] = host.links.as_slice() else {
        panic!("not memif")
    };
    assert_eq!((memif.role, memif.id), (Role::Server, 0));
}

#[test]
fn latency_is_traded_for_processor_time_as_asked() {
    let host = |rest: &str| {
        let plan = serve(&format!("serve . --link tap:near0 --addr 10.0.0.2/24 {rest}"));
        over_link(&plan).0.clone()
    };
    let traded = host("--idle sleep:1000 --tx-delay 100");
    assert_eq!(traded.pace(), host("--idle sleep:1ms --tx-delay 100us").pace());
    assert_eq!(traded.idle, Idle::Sleep(Duration::from_millis(1)));
    assert_eq!(traded.tx_delay, Duration::from_micros(100));
    assert_eq!(host("--tx-delay 0").tx_delay, Duration::ZERO);
    let offloads = |host: &HostPlan| match &host.links[0].driver {
        DriverSpec::Tap(tap) => (host.offload, tap.offload),
        other => panic!("{other:?}"),
    };
    assert_eq!((offloads(&host("--offload on")), offloads(&host("--offload off"))), ((true, true), (false, false)));
}

#[test]
fn serve_without_a_link_is_over_kernel_sockets() {
    let plan = over_sockets("serve ./site");
    assert_eq!((plan.listen.len(), plan.workers, plan.cores), (0, Workers::PerCore, Cores::Allowed));
    let usual = sockets::Config::default();
    assert_eq!((plan.config, plan.options), (usual, sockets::ListenOptions::default()), "the defaults are sockets'");
    assert_eq!((plan.restart.take_over, plan.restart.control), (None, Control::Usual));
    let server = serve("serve ./site --sendfile-above 1M").server;
    let Content::Directory(directory) = server.content else { panic!("no folder") };
    assert_eq!(directory.cache_file_bytes, 1 << 20);
}

#[test]
fn serve_takes_every_flag_of_kernel_sockets() {
    let plan = over_sockets(
        "serve ./site --listen 8080 --listen [::1]:81 --listen unix:/run/x --listen systemd:web --workers 3 \
         --cores 0-2,5,1 --accept least --engine io_uring --backlog 7 --defer-accept 5s --fast-open 9 --ipv6-only \
         --unix-mode 660 --no-delay off --no-push off --so-keepalive 30m::9 --sndbuf 64K --rcvbuf 32K \
         --max-pacing-rate 1M --busy-poll 50us --notsent-lowat 16K --congestion bbr --idle spin:20us --user-timeout 30s \
         --max-connections 5k --max-per-source 20 --exempt-source 10.0.0.0/8 --exempt-source 2001:db8::1 \
         --status-page /run/page --control off --take-over --restart-timeout 3s \
         --restart-drain 4s --pid-file /run/pid",
    );
    let listen = ["8080", "[::1]:81", "unix:/run/x", "systemd:web"].map(value::<Listen>);
    assert_eq!((plan.listen, plan.workers, plan.cores), (listen.to_vec(), Workers::Count(3), value("0-2,5")));
    let stream = plan.config.stream.clone();
    assert_eq!((plan.config.model, plan.config.engine), (sockets::Model::Least, sockets::Engine::IoUring));
    assert_eq!((plan.config.max_connections, plan.config.spin), (5_000, Duration::from_micros(20)));
    let exempt = ["10.0.0.0/8", "2001:db8::1"].map(value).to_vec();
    assert_eq!(plan.config.per_source, Some(app::SourceRule { limit: 20, exempt }));
    let options = plan.options;
    assert_eq!((options.backlog, options.defer_accept), (7, Some(Duration::from_secs(5))));
    assert_eq!((options.fast_open, options.v6_only, options.unix_mode), (Some(9), true, Some(0o660)));
    assert_eq!((stream.no_delay, stream.no_push, stream.send_buffer), (false, false, Some(65_536)));
    assert_eq!((stream.receive_buffer, stream.pacing_rate), (Some(32_768), Some(1 << 20)));
    assert_eq!((stream.busy_poll, stream.not_sent_low_water), (Some(Duration::from_micros(50)), Some(16_384)));
    assert_eq!((stream.congestion.as_deref(), stream.user_timeout), (Some("bbr"), Some(Duration::from_secs(30))));
    let probes = stream.keep_alive.expect("asked for");
    assert_eq!((probes.idle.as_secs(), probes.interval.as_secs(), probes.probes), (1_800, 75, 9));
    let restart = plan.restart;
    assert_eq!((restart.take_over, restart.control), (Some(TakeOver::Only), Control::Off));
    assert_eq!((restart.timeout.as_secs(), restart.drain.as_secs()), (3, 4));
    assert_eq!(plan.status_page, Some("/run/page".into()));
    assert_eq!(serve("serve . --pid-file /run/pid").pid_file, Some("/run/pid".into()));
    let over_memif = serve("serve . --link memif:/run/m.sock --addr 10.0.0.2/24 --pid-file /run/pid");
    assert_eq!(over_memif.pid_file, Some("/run/pid".into()));
    let at = over_sockets("serve . --take-over /run/c --control /run/d --idle spin").restart;
    assert_eq!((at.take_over, at.control), (Some(TakeOver::At("/run/c".into())), Control::At("/run/d".into())));
}

#[test]
fn values_of_kernel_sockets_have_their_bounds() {
    for bad in ["0", "65536", "host:80", "unix:", "systemd:", "systemdx", ""] {
        assert!(bad.parse::<Listen>().is_err(), "{bad}");
    }
    for bad in ["0", "1025", "-1", "many", ""] {
        assert!(bad.parse::<Workers>().is_err(), "{bad}");
    }
    for bad in ["3-1", "0-", "a", "", "1,,2", "0-65535", "4096"] {
        assert!(bad.parse::<Cores>().is_err(), "{bad}");
    }
    for bad in ["", "yes", "1s", "1s:1s", "1s:1s:0", "1s:1s:128", "500ms::", "10h::", "1s:1s:1:1"] {
        assert!(bad.parse::<Probes>().is_err(), "{bad}");
    }
    assert_eq!(value::<Probes>("off"), Probes::Off);
    assert_eq!(value::<Probes>("on"), value::<Probes>("::"));
    assert!(buffer("0").is_err() && buffer("2G").is_err() && buffer("64K") == Ok(65_536));
    let rates = ["0", "", "1", "10M"].map(|text| pacing_rate(text).ok().map(NonZeroU64::get));
    assert_eq!(rates, [None, None, Some(1), Some(10 << 20)]);
    assert!(file_mode("888").is_err() && file_mode("1777").is_err() && file_mode("0600") == Ok(0o600));
}

#[test]
fn serve_takes_every_flag() {
    let plan = serve(
        "serve --respond 2649 --link tap:near0,addr=10.0.0.9/24 --addr 10.0.0.2/24 --addr fd00::2/64 \
         --gateway 10.0.0.1 --gateway fd00::1 --mac 02:00:00:00:00:0a --core 3 --idle spin --congestion newreno \
         --user-timeout 20s --max-pacing-rate 125000 --mss 1400 --receive-limit 16M --send-limit 2M \
         --max-per-source 7 --resets-per-source 300 --errors-per-source 9 \
         --listen 8080 --listen 80 --max-connections 1M --access-log access.log --capture a.pcapng --loss 1% --reorder 0.5% \
         --duplicate 2% --corrupt 3% --delay 10ms --link-rate 100M --seed 7 --status-page /run/page \
         --header-timeout 1s --body-timeout 2s --keep-alive-timeout 3s --send-timeout 4s --drain-timeout 0s",
    );
    let timeouts = &plan.server.timeouts;
    let given =
        [timeouts.http.header, timeouts.http.body, timeouts.http.keep_alive, timeouts.http.send, timeouts.drain];
    assert_eq!(given.map(|time| time.as_secs()), [1, 2, 3, 4, 0]);
    let Content::Respond(Respond::Size(2_649)) = plan.server.content else { panic!("{:?}", plan.server.content) };
    assert_eq!(plan.server.access_log, AccessLog::File("access.log".into()));
    let (host, ports) = over_link(&plan);
    assert_eq!(ports, [80, 8080]);
    let host = host.clone();
    let tap = DriverSpec::Tap("tap:near0,addr=10.0.0.9/24".parse().expect("tap's own syntax"));
    assert_eq!(host.links, [LinkSpec { driver: tap, queues: None }]);
    assert_eq!(host.gateways.len(), 2);
    assert_eq!(host.mac, Some(Mac([2, 0, 0, 0, 0, 10])));
    assert_eq!((host.silos, host.idle, host.congestion), (Silos::Cores(vec![3]), Idle::Spin, Algorithm::NewReno));
    assert_eq!((host.user_timeout, host.pacing_rate), (Some(Duration::from_secs(20)), NonZeroU64::new(125_000)));
    assert_eq!((host.mss, host.receive_limit, host.send_limit), (Some(1_400), Some(16 << 20), Some(2 << 20)));
    assert_eq!((host.resets_per_source, host.errors_per_source), (Some(300), Some(9)));
    assert_eq!(host.max_connections, 1_000_000);
    assert_eq!(host.per_source, Some(app::SourceRule { limit: 7, exempt: Vec::new() }));
    let faults = host.faults.expect("asked for");
    assert_eq!((faults.receive, faults.seed), (faults.transmit, 7));
    let harm = faults.receive;
    let shares = [harm.loss, harm.reorder, harm.duplicate, harm.corrupt].map(|share| share.to_string());
    assert_eq!(shares, ["1%", "0.5%", "2%", "3%"]);
    assert_eq!(harm.delay, Duration::from_millis(10));
    let rate = harm.rate.expect("asked for");
    assert_eq!((rate.bytes_per_second, rate.queue_bytes), (12_500_000, 1_250_000));
    assert_eq!(host.status_page, Some("/run/page".into()));
}

#[test]
fn load_takes_short_flags_and_fills_in_the_rest() {
    let plan = load(
        "load http://10.0.0.2:8080/a?b=c -c 1k -d 2s -n 10k -H Accept:a -H host:x --active 1k --mix --close \
         --link memif:@x,role=server,id=3,ring=512,buffer=4096 --addr 10.0.0.1/24 --hgrm out.hgrm --timeout 1s",
    );
    let (load, request) = (&plan.load, plan.load.first_request());
    assert_eq!(load.targets, ["10.0.0.2:8080".parse().expect("an address")]);
    assert_eq!((&*request.host, &*request.path, &*request.headers[0].1), ("x", "/a?b=c", "a"));
    assert_eq!((load.connections, load.active, load.mix), (1_000, Some(1_000), true));
    assert_eq!(load.stop, load::Stop::Requests { count: 10_000, within: Duration::from_secs(2) });
    assert_eq!((load.warm_up, load.timeout), (Duration::ZERO, Duration::from_secs(1)));
    assert_eq!((load.ramp_limit, load.connect_timeout), (Duration::from_secs(30), load.timeout));
    assert_eq!((request.method.as_str(), request.body.len(), load.pipeline), ("GET", 0, 1));
    assert_eq!(load.reuse, load::Reuse::ServerCloses);
    assert_eq!(load.sources, ["10.0.0.1".parse::<IpAddr>().expect("an address")]);
    assert_eq!(plan.output.hgrm, Some("out.hgrm".into()));
    let LoadPath::Link(host) = plan.path else { panic!("not over the link") };
    assert_eq!(host.max_connections, 1_000);
    let DriverSpec::Memif(memif) = &host.links[0].driver else { panic!("not memif") };
    assert_eq!(memif.role, Role::Server);
    assert_eq!((memif.id, memif.log2_ring_size, memif.buffer_size), (3, 9, 4_096));
}

#[test]
fn load_takes_limits_and_bodies() {
    let file = std::env::temp_dir().join(format!("nearside-body-{}", std::process::id()));
    std::fs::write(&file, "from a file").expect("a temporary file");
    let line = "load http://10.0.0.2/ --link memif:/x --addr 10.0.0.1/24 --ramp-limit 2m --connect-timeout 300ms \
                -m POST --pipeline 4 --body";
    let plan = load(&format!("{line} @{}", file.display())).load;
    std::fs::remove_file(&file).expect("it was made");
    assert_eq!((plan.ramp_limit, plan.connect_timeout), (Duration::from_secs(120), Duration::from_millis(300)));
    assert_eq!((plan.timeout, plan.pipeline), (Duration::from_secs(10), 4));
    assert_eq!(
        (plan.first_request().method.as_str(), plan.first_request().body.as_slice()),
        ("POST", b"from a file".as_slice())
    );
    assert_eq!(load(&format!("{line} text")).load.first_request().body, b"text");
    assert!(refusal(&format!("{line} @{}", file.display())).contains("cannot be read"));
}

#[test]
fn load_runs_over_kernel_sockets_without_a_link() {
    let plan = load("load http://localhost:8080/a");
    let LoadPath::Kernel(kernel) = &plan.path else { panic!("over a link") };
    assert_eq!(kernel.place, Place::Name("localhost".into(), 8080));
    assert_eq!(
        (kernel.threads, &kernel.cores, kernel.spin, kernel.floor),
        (None, &Cores::Allowed, Duration::ZERO, true)
    );
    assert_eq!(plan.load.stop, load::Stop::After(Duration::from_secs(10)));
    assert!(matches!(plan.task, Task::Once) && plan.load.sources.is_empty() && plan.expect.is_empty());
    let plan = load(
        "load http://127.0.0.1/ --threads 2 --cores 1,0 --engine epoll --idle spin --no-floor --unix @x --rate poisson:10k \
         --reuse 7 --closer client --ramp 2s --warmup 1000r --want-status 204 --want-length 5 --expect p99<1ms \
         --expect errors<1%,rate>1k --as wrk --ndjson a --hdr-log b --hgrm c --interval 250ms --progress lines \
         --congestion reno --user-timeout 10s",
    );
    let LoadPath::Kernel(kernel) = &plan.path else { panic!("over a link") };
    assert_eq!((kernel.threads, &kernel.cores), (Some(2), &Cores::List(vec![1, 0])));
    assert_eq!((kernel.engine, kernel.spin, kernel.floor), (sockets::Engine::Epoll, Duration::MAX, false));
    assert_eq!((&kernel.place, kernel.congestion.as_deref()), (&Place::Unix("@x".into()), Some("reno")));
    assert_eq!(kernel.user_timeout, Some(Duration::from_secs(10)));
    assert_eq!(plan.load.arrival, load::Arrival::Open(load::Schedule::poisson(10_000.0)));
    assert_eq!((plan.load.reuse, plan.load.ramp), (load::Reuse::ClientClosesAfter(7), Duration::from_secs(2)));
    assert_eq!((plan.load.warm_up, plan.load.warm_up_requests), (Duration::ZERO, 1_000));
    assert_eq!((plan.load.expect.status, plan.load.expect.length), (Some(204), Some(5)));
    assert_eq!(plan.expect.len(), 3);
    let output = plan.output;
    assert_eq!((output.form, output.progress), (Form::Wrk, ProgressKind::Lines));
    assert_eq!([output.ndjson, output.hdr_log, output.hgrm], ["a", "b", "c"].map(|name| Some(PathBuf::from(name))));
    assert_eq!(output.interval, Duration::from_millis(250));
}

#[test]
fn load_searches_and_sweeps() {
    let words = "--find-start 5k --find-precision 5% --svg x.svg --html x.html --json --server-pid 7";
    let plan = load(&format!("load http://a/ --find-max p99<1ms {words}"));
    let Task::FindMax { objectives, config, server } = plan.task else { panic!("no search") };
    assert_eq!((server, objectives.len()), (ServerPlan::Process(7), 1));
    assert_eq!([config.start, config.precision], [5_000.0, 0.05]);
    let output = plan.output;
    assert_eq!((output.svg, output.html, output.form), (Some("x.svg".into()), Some("x.html".into()), Form::Json));
    assert_eq!(plan.load.stop, load::Stop::After(Duration::from_secs(3)));
    let plan = load("load http://a/ --sweep conns=1,2,4..128 --procs 1,2 --csv x.csv --server-pid 7 -d 1s");
    assert_eq!(plan.load.stop, load::Stop::After(Duration::from_secs(1)));
    let Task::Sweep(sweep) = plan.task else { panic!("no sweep") };
    assert_eq!((sweep.connections.len(), sweep.procs, sweep.csv), (8, vec![1, 2], Some("x.csv".into())));
    assert_eq!(sweep.server, ServerPlan::Process(7));
}

#[test]
fn load_asks_for_many_paths_with_many_heads() {
    let all = load("load http://10.0.0.2/f/[00-99].html --heads browser").load;
    let paths: Vec<&str> = all.requests.iter().map(|request| request.item.path.as_str()).collect();
    assert_eq!((paths.len(), paths[0], paths[99]), (100, "/f/00.html", "/f/99.html"));
    assert_eq!(all.heads, load::Heads::Browser);
    assert_eq!(load("load http://10.0.0.2/").load.heads, load::Heads::Equal);
}

#[test]
fn load_refuses_what_contradicts() {
    let link = "--link memif:/x --addr 10.0.0.1/24";
    for (line, reason) in [
        ("load http://a/ --close --reuse 3".to_owned(), "cannot be used with"),
        ("load http://a/ --rate 1k --active 3".to_owned(), "cannot be used with"),
        ("load http://a/ --rate fast".to_owned(), "poisson:10k"),
        ("load http://a/ --find-max p99<1ms --rate 1k".to_owned(), "cannot be used with"),
        ("load http://a/ --find-max p99<1ms --sweep conns=1".to_owned(), "cannot be used with"),
        ("load http://a/ --find-max p99".to_owned(), "no < or >"),
        ("load http://a/ --expect p99<5".to_owned(), "time with its unit"),
        ("load http://a/ --find-start 1k".to_owned(), "--find-max"),
        ("load http://a/ --find-precision 2".to_owned(), "as in 2%"),
        ("load http://a/ --procs 1".to_owned(), "--sweep"),
        ("load http://a/ --sweep 1,2".to_owned(), "conns="),
        ("load http://a/ --sweep conns=1 --threads 2 --procs 2".to_owned(), "cannot be used with"),
        ("load http://a/ --sweep conns=1 --ndjson x".to_owned(), "cannot be used with"),
        ("load http://a/ --csv x".to_owned(), "--sweep"),
        ("load http://a/ --bulk --hgrm x".to_owned(), "--hgrm"),
        ("load http://a/ --server-pid 7".to_owned(), "--sweep and --find-max"),
        ("load http://a/ --as ab --json".to_owned(), "cannot be used with"),
        ("load http://a/ --warmup 5".to_owned(), "as in 1000r"),
        ("load http://a/ --heads short --body x".to_owned(), "cannot be used with"),
        ("load http://a/[9-1]".to_owned(), "counts upwards"),
        ("load http://a/ --interval 1ms".to_owned(), "from 10ms to 1h"),
        ("load http://a/ --urls /nowhere".to_owned(), "cannot be read"),
        ("load unix:/x --source 10.0.0.1".to_owned(), "leave --source out"),
        ("load http://10.0.0.1/ --source fd00::1".to_owned(), "different families"),
        ("load http://a/ --addr 10.0.0.1/24".to_owned(), "--link"),
        ("load http://a/ --loss 1%".to_owned(), "--link"),
        ("load http://a/ --status-page x".to_owned(), "keeps no statistics page"),
        (format!("load http://a/ {link}"), "no name resolution"),
        (format!("load http://10.0.0.2/ {link} --threads 2"), "cannot be used with"),
        (format!("load http://10.0.0.2/ {link} --unix /x"), "cannot be used with"),
    ] {
        let told = refusal(&line);
        assert!(told.contains(reason), "{line}: {told}");
    }
}

#[test]
fn what_makes_no_sense_together_is_refused_with_the_reason() {
    let host = "--link memif:/x --addr 10.0.0.1/24";
    for (line, reason) in [
        ("serve --link memif:/x --addr 10.0.0.1/24".to_owned(), "<FOLDER>"),
        (format!("serve . --respond 1 {host}"), "cannot be used with"),
        ("serve . --link memif:/x".to_owned(), "--addr"),
        ("serve . --link af_xdp:e0 --link af_xdp:e1".to_owned(), "several links need an address"),
        ("serve . --link af_xdp:e0 --mac 02:00:00:00:00:01".to_owned(), "is the interface's"),
        ("serve . --link af_xdp:e0 --bond lacp".to_owned(), "the kernel's to aggregate"),
        ("load http://10.0.0.2/ --link af_xdp:e0".to_owned(), "load needs an address of its own"),
        ("serve . --addr 10.0.0.1/24".to_owned(), "--link"),
        ("serve --respond 600 --listen 28080 --plan".to_owned(), "--link"),
        ("serve --respond 600 --workers 2 --plan".to_owned(), "--plan goes with --link"),
        ("serve . --bond static,weights=1:2,weights=2:1 --link memif:/x".to_owned(), "weights is given twice"),
        ("serve . --loss 1%".to_owned(), "--link"),
        ("serve . --tx-delay 100us".to_owned(), "--link"),
        ("serve . --offload off".to_owned(), "--link"),
        ("serve . --idle sleep:1ms".to_owned(), "--idle sleep:1ms needs --link"),
        (format!("serve . {host} --tx-delay 200ms"), "at most 100ms"),
        (format!("serve . {host} --idle sleep:2s"), "1us to 1s"),
        ("serve . --link tap:x,large=on --addr 10.0.0.1/24 --offload off".to_owned(), "large=on is an offload"),
        ("serve . --listen host:80".to_owned(), "write PORT"),
        (format!("serve . {host} --listen 10.0.0.1:80"), "there are only ports"),
        (format!("serve . {host} --listen systemd"), "there are only ports"),
        (format!("serve . {host} --workers 2"), "cannot be used with"),
        (format!("serve . {host} --congestion bbr"), "cubic and newreno"),
        ("serve . --accept first".to_owned(), "reuseport"),
        ("serve . --engine kqueue".to_owned(), "io_uring"),
        (format!("serve . {host} --gateway 10.0.1.1"), "in no subnet"),
        (format!("serve . {host} --gateway 10.0.0.3 --gateway 10.0.0.4"), "more than one gateway"),
        (format!("serve . {host} --max-connections 20M"), "at most 15000000"),
        ("serve . --max-per-source 5 --exempt-source 10.0.0.0/99".to_owned(), "write an address, or a network"),
        ("serve . --max-per-source 0".to_owned(), "write a number above 0"),
        (format!("load http://10.0.0.2/ {host} -c 5 --active 6"), "active connections"),
        (format!("load http://10.9.0.2/ {host}"), "in no subnet of --addr, and there is no --gateway"),
        (format!("load http://[fd00::2]/ {host}"), "family"),
        (format!("load http://10.0.0.2/ {host} --source fd00::1"), "different families"),
        (format!("load http://10.0.0.2/ {host} -d 0s"), "longer than zero"),
        (format!("load http://10.0.0.2/ {host} --connect-timeout 2h"), "connect timeout must be"),
        (format!("load http://10.0.0.2/ {host} --pipeline 65"), "1 and 64 requests deep"),
        (format!("load http://10.0.0.2/ {host} --method CONNECT"), "method is not one"),
        (format!("load http://10.0.0.2/ {host} -H Connection:x"), "set by the generator"),
        (format!("load http://10.0.0.2/ {host} -H Host:x -H host:y"), "a request has one"),
        (format!("load http://10.0.0.2/ {host} --close --active 1"), "leaves none idle"),
        (format!("serve . {host} --mac 01:00:5e:00:00:01"), "unicast"),
        (format!("serve . {host} --loss 1"), "1% or 100%? write a share with its sign"),
        (format!("serve . {host} --idle never"), "--idle"),
        ("demo --cores 1,1".to_owned(), "two different cores"),
        ("demo --nginx /a,/b,/c".to_owned(), "at most 2 paths"),
        ("demo --nginx /a,".to_owned(), "at most 2 paths"),
    ] {
        let told = refusal(&line);
        assert!(told.contains(reason), "{line}: {told}");
    }
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
        ("memif", "starts with memif:"),
        ("memif:", "socket path"),
        ("memif:/x,role=master", "server or client"),
        ("memif:/x,color=red", "no key `color`"),
        ("tap:", "name"),
        ("tap:a-name-that-is-too-long", "name"),
        ("dpdk:eno1", "neither a PCI address"),
        ("dpdk:net_null0,speed=1", "has no 'speed'"),
        ("pigeon:coop", "af_xdp:INTERFACE or dpdk:DEVICE"),
        ("", "memif:/run/nearside.sock, tap:NAME"),
    ] {
        let told = LinkSpec::parse(bad, Role::Client).expect_err(bad).to_string();
        assert!(told.contains(reason), "{bad}: {told}");
    }
}

#[test]
fn fixed_answers_are_sizes_or_texts() {
    assert_eq!(respond("64K"), Ok(Respond::Size(65_536)));
    assert_eq!(respond("text:64K"), Ok(Respond::Text("64K".into())));
    assert_eq!(respond("hello"), Ok(Respond::Text("hello".into())));
    assert!(respond("2G").is_err());
}

#[test]
fn access_logs_have_a_place_and_ports_are_not_zero() {
    assert_eq!(access_log("off"), Ok(AccessLog::Off));
    for (text, log) in
        [("-", AccessLog::Stdout), ("/dev/stdout", AccessLog::Stdout), ("/dev/stderr", AccessLog::Stderr)]
    {
        assert_eq!(access_log(text), Ok(log));
    }
    assert_eq!(access_log("a/b.log"), Ok(AccessLog::File("a/b.log".into())));
    assert!(access_log("").is_err());
}

#[test]
fn an_interface_may_be_served_on_the_hosts_addresses() {
    let plan = serve("serve . --link af_xdp:eth0,mode=native --listen 80 --listen 8080");
    let (host, ports) = over_link(&plan);
    assert!(host.uses_host_addresses());
    assert_eq!((host.links[0].name(), host.links[0].queues, ports), ("af_xdp:eth0".to_owned(), None, &[80, 8080][..]));
    let plan = serve("serve . --link af_xdp:eth0,queues=2 --addr 10.0.0.2/24");
    let (host, _) = over_link(&plan);
    assert_eq!((host.uses_host_addresses(), host.links[0].queues), (false, Some(2)));
}

#[test]
fn numbers_below_zero_are_refused_as_values() {
    let told = |line: &str| parse(line.split(' ')).map(|_| ()).expect_err(line).to_string();
    for (line, reason) in [
        ("nearside serve . --workers -5", "invalid value '-5' for '--workers <N|auto>'"),
        ("nearside serve . --workers -5", "a number from 1 to"),
        ("nearside serve . --send-timeout -5s", "invalid value '-5s' for '--send-timeout <TIME>'"),
        ("nearside load http://10.0.0.1/ -c -5", "invalid value '-5' for '--connections <N>'"),
        ("nearside serve . --check -5", "unexpected value '-5' for '--check'"),
        ("nearside serve . --listen -.5", "invalid value '-.5' for '--listen"),
    ] {
        let told = told(line);
        assert!(told.contains(reason) && !told.contains("-- -"), "{line}: {told}");
    }
    // What is no number is as ever.
    assert!(told("nearside serve . --workers --check").contains("a value is required"));
}

#[test]
fn what_is_no_link_no_port_and_no_address_says_what_is() {
    for (arguments, reason) in [
        ("--link foo:bar", "there is no link of the kind foo: write memif:"),
        ("--link eth0", "tap:NAME, af_packet:INTERFACE, af_xdp:INTERFACE or dpdk:DEVICE"),
        ("--link tap:", "names no interface: 1 to 15 characters"),
        ("--link tap:a123456789012345", "'a123456789012345' names no interface: 1 to 15 characters"),
        ("--link af_xdp:a123456789012345", "'a123456789012345' names no interface: 1 to 15 characters"),
        ("--listen 70000", "the port is from 1 to 65535"),
        ("--listen 10.0.0.1:70000", "the port is from 1 to 65535"),
        ("--listen 10.0.0.256:80", "no IPv4 or IPv6 address"),
        ("--listen ::1:80", "stands in brackets, as in [::1]:80"),
        ("--link tap:x --addr 10.0.0.2/24 --gateway 10.0.0", "not an IPv4 or IPv6 address"),
    ] {
        let line = ["nearside", "serve", "."].into_iter().chain(arguments.split(' '));
        let told = parse(line).map(|_| ()).expect_err(arguments).to_string();
        assert!(told.contains(reason), "{arguments}: {told}");
    }
}

/// What import prints is a command line that serve takes.
#[test]
fn the_command_of_an_import_is_one_that_is_understood() {
    let text = "[dpdk]\nlcore_mask=14\nallow=02:00.0\nport_list=0\npkt_tx_delay=100\n[port0]\naddr=192.0.2.2\n\
                netmask=255.255.255.0\ngateway=192.0.2.1\n";
    let import = fstack::read(text).expect("a configuration");
    let parsed = definition().try_get_matches_from(import.command.iter().map(String::as_str));
    parsed.unwrap_or_else(|why| panic!("{why}"));
}
