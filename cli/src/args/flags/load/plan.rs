//! The flags of `nearside load`, as meant.

use super::script::read_at_most;
use super::{BulkArg, Closer, ConnectionArgs, GoalArgs, LoadArgs, RequestArgs, StreamStart, WarmUp};
use crate::args::flags::connections;
use crate::args::target::{Target, unix};
use generator::{BulkTask, LoadPath, LoadPlan, LoadSockets, Place, ServerPlan, StreamTask, SweepPlan, Task};
use host::Cores;
use host::values::{AddressRange, Cidr, Count};
use load::{
    Arrival, Expect, FindMaxConfig, Objective, Plan, PlayRate, PlayerPlan, REQUEST_LIMIT, Request, Reuse,
    STREAMS_LIMIT, Stop, Weighted, expand, is_log, parse_requests,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

/// Before measuring, where no number of requests is asked for.
const USUAL_WARM_UP: Duration = Duration::from_secs(1);

/// How long a run measures, where nothing else is said.
const USUAL_DURATION: Duration = Duration::from_secs(10);

/// The longest file of URLs.
const URLS_LIMIT: usize = 64 << 20;

/// The same where there are many runs.
const SHORT_DURATION: Duration = Duration::from_secs(3);

impl LoadArgs {
    pub(in crate::args) fn plan(self) -> Result<LoadPlan, String> {
        let held = connections(self.connections, "--connections")?;
        let http2 = self.http2.plan();
        let secured = self.secured.sought(&self.target, held, http2.is_some())?;
        let task = self.goal.task()?;
        let is_grpc = http2.is_some_and(|(http2, _)| http2.grpc.is_some());
        let (mut requests, mut notes) = self.request.requests(&self.target, is_grpc)?;
        if matches!(task, Task::Stream(_)) && !notes.is_empty() {
            notes.extend(leave_out_unplayed(&mut requests)?);
        }
        let (path, target, sources) = if !self.host.link.is_empty() {
            let Place::Address(target) = self.target.place else {
                return Err("over a link the host must be an IP address: there is no name resolution".to_owned());
            };
            let host = self.host.plan(driver::Role::Client, held)?;
            let sources = link_sources(&self.connection.sources, &host.addresses, target.ip())?;
            reachable(&host.addresses, &host.gateways, target.ip())?;
            (LoadPath::Link(Box::new(host)), target, sources)
        } else {
            if self.host.status_page.is_some() {
                return Err("--status-page: over kernel sockets the generator keeps no statistics page; see --ndjson"
                    .to_owned());
            }
            let place = match &self.kernel.unix {
                Some(path) => unix(path).map_err(|why| format!("--unix: {why}"))?,
                None => self.target.place,
            };
            let target = stand_in(&place, &self.connection.sources)?;
            let sources = self.connection.sources.iter().flat_map(AddressRange::iter).collect();
            let kernel = LoadSockets {
                place,
                threads: self.kernel.threads,
                cores: self.kernel.cores.unwrap_or(Cores::Allowed),
                engine: self.kernel.engine,
                spin: self.host.spin()?,
                congestion: self.host.congestion,
                pacing_rate: self.host.max_pacing_rate.map(NonZeroU64::get),
                user_timeout: self.host.user_timeout,
                fifo: self.host.fifo,
                floor: !self.kernel.no_floor,
            };
            (LoadPath::Kernel(kernel), target, sources)
        };
        let mut plan = Plan::new(target, Request::get(&self.target.host, &self.target.path));
        plan.requests = requests;
        plan.heads = self.request.heads.into();
        plan.sources = sources;
        plan.connections = held;
        let usual = if matches!(task, Task::Once | Task::Stream(_)) { USUAL_DURATION } else { SHORT_DURATION };
        let duration = self.duration.unwrap_or(usual);
        plan.stop = match self.requests {
            Some(Count(count)) => Stop::Requests { count, within: duration },
            None => Stop::After(duration),
        };
        // Who asks for so many requests has so many sent.
        let usual = if self.requests.is_some() { Duration::ZERO } else { USUAL_WARM_UP };
        let warmup = self.warmup.unwrap_or(WarmUp::Time(usual));
        match warmup {
            WarmUp::Time(time) => plan.warm_up = time,
            WarmUp::Requests(count) => (plan.warm_up, plan.warm_up_requests) = (Duration::ZERO, count),
        }
        plan.active = self.pace.active.map(|active| connections(active, "--active")).transpose()?;
        plan.mix = self.pace.mix;
        plan.pipeline = http2.map_or(self.pace.pipeline, |(_, streams)| streams);
        plan.http2 = http2.map(|(http2, _)| http2);
        plan.arrival = self.pace.rate.map_or(Arrival::Closed, Arrival::Open);
        plan.timeout = self.request.timeout;
        plan.expect = Expect { length: self.answers.want_length, status: self.answers.want_status };
        self.answers.shape(&mut plan)?;
        self.script.shape(&mut plan)?;
        let as_ab = matches!(task, Task::Once) && self.output.is_ab();
        self.connection.shape(&mut plan, as_ab);
        let task = match self.goal.bulk(held, warmup, duration)? {
            Some(_) if plan.secured.is_some() => return Err("--bulk: streams are not secured".to_owned()),
            Some(bulk) => match self.output.of_requests() {
                Some(name) => return Err(format!("{name} is about requests, and --bulk about streams")),
                None => bulk,
            },
            None => task,
        };
        if let (Task::Stream(_), Some(name)) = (&task, self.output.not_of_streams()) {
            return Err(format!("{name} is about requests, and --stream about streams"));
        }
        plan.parts = as_ab;
        plan.secured = secured;
        let hint = if as_ab && plan.reuse.per_connection() == Some(1) { ": --as ab keeps none without -k" } else { "" };
        plan.check().map_err(|why| format!("{why}{hint}"))?;
        let expect: Vec<Objective> = self.goal.expect.into_iter().flat_map(|list| list.0).collect();
        judges(&expect, &task)?;
        if let Task::Stream(stream) = &task {
            stream.plan(&plan).check().map_err(|why| format!("--stream: {why}"))?;
        }
        let worker = self.worker.plan();
        Ok(LoadPlan { path, load: plan, task, expect, output: self.output.plan(), notes, worker })
    }
}

/// Leaves out what a record has of requests whose answers have nothing to play, and says how many those are.
fn leave_out_unplayed(requests: &mut Vec<Weighted<Request>>) -> Result<Option<String>, String> {
    let has_none = |one: &Weighted<Request>| matches!(one.item.method.as_str(), "HEAD" | "OPTIONS");
    let left_out: u64 = requests.iter().filter(|one| has_none(one)).map(|one| u64::from(one.weight)).sum();
    requests.retain(|one| !has_none(one));
    match (left_out, requests.is_empty()) {
        (0, _) => Ok(None),
        (_, true) => Err("--urls: all of it is HEAD or OPTIONS, and their answers have nothing to play".to_owned()),
        (some, false) => {
            Ok(Some(format!("{some} of these are left out: answers to HEAD and OPTIONS have nothing to play")))
        }
    }
}

/// Whether what is measured has the figures that are to be met.
fn judges(expect: &[Objective], task: &Task) -> Result<(), String> {
    let has = |objective: &&Objective| match task {
        Task::Stream(stream) => !objective.metric.is_of_streams(stream.player.is_some()),
        _ => !objective.metric.is_of_requests(),
    };
    match (expect.iter().find(has), task) {
        (None, _) => Ok(()),
        (Some(other), Task::Stream(StreamTask { player: Some(_), .. })) => {
            Err(format!("--expect {other}: that is no figure of streams that are played"))
        }
        (Some(other), Task::Stream(_)) => {
            Err(format!("--expect {other}: that is no figure of streams that are held against a rate"))
        }
        (Some(other), _) => Err(format!("--expect {other}: that is a figure of streams (--stream)")),
    }
}

impl RequestArgs {
    /// The request, or those of the file, and what is said of them.
    fn requests(&self, target: &Target, is_grpc: bool) -> Result<(Vec<Weighted<Request>>, Vec<String>), String> {
        let mut request = Request::get(&target.host, &target.path);
        request.method = if is_grpc { "POST".to_owned() } else { self.method.clone() };
        request.body = self.body.as_deref().map_or(Ok(Vec::new()), content)?;
        let (hosts, headers): (Vec<_>, Vec<_>) =
            self.headers.iter().partition(|header| header.name.eq_ignore_ascii_case("Host"));
        let host = match hosts[..] {
            [] => &target.host,
            [one] => &one.value,
            [..] => return Err("--header Host: a request has one".to_owned()),
        };
        request.headers = headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        let Some(file) = &self.urls else {
            let paths = expand(&target.path)?;
            request.host.clone_from(host);
            let one = |path| Weighted { weight: 1, item: Request { path, ..request.clone() } };
            return Ok((paths.into_iter().map(one).collect(), Vec::new()));
        };
        let named = |why: String| format!("--urls {}: {why}", file.display());
        let text = read_at_most(file, URLS_LIMIT).map_err(named)?;
        // Of a log, a line of other bytes is left out, and counted.
        let text = String::from_utf8(text).or_else(|bad| {
            let text = String::from_utf8_lossy(bad.as_bytes()).into_owned();
            if is_log(&text) { Ok(text) } else { Err(named("it is no UTF-8".to_owned())) }
        })?;
        let mut content =
            |file: &str| read_at_most(Path::new(file), REQUEST_LIMIT).map_err(|why| format!("{file}: {why}"));
        let mut requests = parse_requests(&text, (&request, host), target.secured, &mut content)
            .map_err(|why| named(why.to_string()))?;
        // A line of the file may say another.
        for one in requests.list.iter_mut().filter(|one| one.item.host == target.host) {
            one.item.host.clone_from(host);
        }
        Ok((requests.list, requests.told.map(named).into_iter().collect()))
    }
}

impl ConnectionArgs {
    /// `as_ab`: as ab does it where nothing else is said.
    fn shape(&self, plan: &mut Plan, as_ab: bool) {
        plan.ramp = self.ramp;
        plan.ramp_limit = self.ramp_limit;
        plan.connect_timeout = self.connect_timeout.unwrap_or(plan.timeout);
        let usual = (as_ab && !self.keep_alive).then_some(1);
        let requests = if self.close { Some(1) } else { self.reuse.or(usual) };
        plan.reuse = match (requests, self.closer) {
            (None, _) => Reuse::KeepAlive,
            (Some(1), Closer::Server) => Reuse::ServerCloses,
            (Some(1), Closer::Client) => Reuse::ClientCloses,
            (Some(n), Closer::Server) => Reuse::ServerClosesAfter(n),
            (Some(n), Closer::Client) => Reuse::ClientClosesAfter(n),
        };
    }
}

impl GoalArgs {
    /// Streams without end, if they are asked for: as many as connections, each way.
    fn bulk(&self, streams: u32, warmup: WarmUp, duration: Duration) -> Result<Option<Task>, String> {
        let Some(way) = self.bulk else { return Ok(None) };
        if streams > STREAMS_LIMIT {
            return Err(format!("--bulk: there may be {STREAMS_LIMIT} streams each way"));
        }
        let WarmUp::Time(omit) = warmup else {
            return Err("--bulk: what is left out at the beginning is a time (--warmup 1s)".to_owned());
        };
        let (up, down) = match way {
            BulkArg::Up => (streams, 0),
            BulkArg::Down => (0, streams),
            BulkArg::Both => (streams, streams),
        };
        Ok(Some(Task::Bulk(BulkTask { up, down, omit, duration })))
    }

    fn task(&self) -> Result<Task, String> {
        let server = match (&self.server_page, self.server_pid) {
            (Some(page), _) => ServerPlan::Page(page.clone()),
            (None, Some(pid)) => ServerPlan::Process(pid),
            (None, None) => ServerPlan::Usual,
        };
        if let Some(rate) = self.stream {
            let player = self.buffer.map(|buffer| PlayerPlan { buffer, share: self.play_at });
            return Ok(Task::Stream(StreamTask {
                rate: PlayRate::new(rate.0),
                player,
                spread: self.stream_start == StreamStart::Spread,
            }));
        }
        if let Some(objectives) = &self.find_max {
            let objectives: Vec<Objective> = objectives.0.clone();
            if let Some(other) = objectives.iter().find(|objective| !objective.metric.is_of_requests()) {
                return Err(format!("--find-max {other}: that is a figure of streams (--stream)"));
            }
            let config = FindMaxConfig {
                start: self.find_start.0 as f64,
                precision: self.find_precision,
                ..FindMaxConfig::default()
            };
            return Ok(Task::FindMax { objectives, config, server });
        }
        let Some(conns) = &self.sweep else {
            return match server == ServerPlan::Usual {
                true => Ok(Task::Once),
                false => Err("--server-pid and --server-page are for --sweep and --find-max".to_owned()),
            };
        };
        Ok(Task::Sweep(SweepPlan {
            connections: conns.0.clone(),
            procs: self.procs.as_ref().map_or(Vec::new(), |list| list.0.clone()),
            csv: self.csv.clone(),
            server,
        }))
    }
}

/// A body: as written, or of the file that `@` names.
fn content(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix('@') {
        Some(file) => read_at_most(Path::new(file), REQUEST_LIMIT).map_err(|why| format!("--body {file}: {why}")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Whether a target can be reached at all.
fn reachable(ours: &[Cidr], gateways: &[IpAddr], target: IpAddr) -> Result<(), String> {
    let reached = ours.iter().any(|ours| ours.contains(target));
    let routed = gateways.iter().any(|gateway| gateway.is_ipv4() == target.is_ipv4());
    if reached || routed {
        Ok(())
    } else {
        Err(format!("{target} is in no subnet of --addr, and there is no --gateway"))
    }
}

/// The target's address, or one that holds the place of a name's or of a Unix
/// socket's: of the sources' family, so that the rest can be checked now.
fn stand_in(place: &Place, sources: &[AddressRange]) -> Result<SocketAddr, String> {
    let unspecified = |v4: bool| if v4 { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { IpAddr::from([0_u16; 8]) };
    match place {
        Place::Address(address) => {
            if let Some(other) = sources.iter().find(|range| range.first.is_ipv4() != address.is_ipv4()) {
                return Err(format!(
                    "--source {} and the target {} are of different families",
                    other.first,
                    address.ip()
                ));
            }
            Ok(*address)
        }
        Place::Name(_, port) => {
            let v4 = sources.first().is_none_or(|range| range.first.is_ipv4());
            Ok(SocketAddr::new(unspecified(v4), *port))
        }
        Place::Unix(_) if !sources.is_empty() => {
            Err("a Unix socket is not reached from an address: leave --source out".to_owned())
        }
        Place::Unix(_) => Ok(SocketAddr::new(unspecified(true), 80)),
    }
}

/// The addresses to connect from over a link: those asked for, or else our
/// own ones.
fn link_sources(asked: &[AddressRange], ours: &[Cidr], target: IpAddr) -> Result<Vec<IpAddr>, String> {
    let alike = |address: IpAddr| address.is_ipv4() == target.is_ipv4();
    if let Some(other) = asked.iter().find(|range| !alike(range.first)) {
        return Err(format!("--source {} and the target {target} are of different families", other.first));
    }
    if !asked.is_empty() {
        return Ok(asked.iter().flat_map(AddressRange::iter).collect());
    }
    let own: Vec<IpAddr> = ours.iter().map(|cidr| cidr.address).filter(|address| alike(*address)).collect();
    if own.is_empty() { Err(format!("no --addr is of the family of the target {target}")) } else { Ok(own) }
}
