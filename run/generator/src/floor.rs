//! The generator's own floor: the same plan, for a moment, against a server
//! that does nothing but answer, on a thread of its own.

use super::account::merge;
use super::kernel::Sockets;
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::net::SocketAddr;
use core::time::Duration;
use cpu::pin::{allowed_cores, pin};
use load::{Floor, Plan, Report, Stop};
use memchr::memmem;
use say::Failure;
use silo::{Next, Usage};
use sockets::{Attendant, Config, Endpoint, ListenOptions, Listeners, Model, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use wire::Time;

/// How long the floor is measured.
const MEASURED: Duration = Duration::from_millis(700);

/// How long it is warmed up before.
const WARM_UP: Duration = Duration::from_millis(200);

/// The plan's intervals are not of interest here.
const EVERY: Duration = Duration::from_secs(60);

/// What the null server answers: the shortest response that frames.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Measures the plan's floor; `None` where the null server cannot know what it
/// is asked, for requests with content, over HTTPS or HTTP/2, or if nothing was answered.
///
/// # Errors
/// If the null server cannot start.
pub fn measure(sockets: &Sockets, plan: &Plan, signals: &Arc<AtomicUsize>) -> Result<Option<Floor>, Failure> {
    let content = plan.requests.iter().any(|request| !request.item.body.is_empty());
    // Nor does it speak TLS or HTTP/2.
    if content || plan.secured.is_some() || plan.http2.is_some() || signals.load(Ordering::Relaxed) > 0 {
        return Ok(None);
    }
    let v4 = plan.targets.iter().all(SocketAddr::is_ipv4);
    let loopback: SocketAddr = if v4 { ([127, 0, 0, 1], 0).into() } else { ([0, 0, 0, 0, 0, 0, 0, 1], 0).into() };
    let listeners = Listeners::bind(&[Endpoint::Tcp(loopback)], &ListenOptions::default(), Model::Exclusive, 1)?;
    let Some(Endpoint::Tcp(address)) = listeners.endpoints().into_iter().next() else { return Ok(None) };
    let mut own = plan.clone();
    own.targets = vec![address];
    own.sources = Vec::new();
    (own.warm_up, own.warm_up_requests, own.ramp) = (WARM_UP, 0, Duration::ZERO);
    own.stop = Stop::After(MEASURED);
    own.held = false;
    let over = AtomicBool::new(false);
    let sides = thread::scope(|scope| {
        let server = thread::Builder::new()
            .name("near-null".into())
            .spawn_scoped(scope, || serve(&listeners, sockets, plan.connections, &over))?;
        let (sender, _sources) = channel();
        let sides = sockets.to_addresses().run(&own, EVERY, signals, &sender);
        over.store(true, Ordering::Relaxed);
        server.join().map_err(|_| "the null server panicked")??;
        sides
    })?;
    let (figures, outside) = merge(sides);
    let report = Report::new(&own, &figures, outside);
    let latency = &report.latency;
    let measured = report.traffic.responses > 0;
    Ok(measured.then_some(Floor { mean_ns: latency.mean_ns, p50_ns: latency.p50_ns, p99_ns: latency.p99_ns }))
}

/// Serves until `over`, on a core that the generator leaves free if there is
/// one.
fn serve(listeners: &Listeners, sockets: &Sockets, connections: u32, over: &AtomicBool) -> Result<(), String> {
    let cores = allowed_cores().unwrap_or_default();
    if let Some(core) = cores.iter().find(|core| !sockets.cores().any(|taken| taken == **core)) {
        pin(*core).map_err(|why| why.to_string())?;
    }
    let config =
        Config { model: Model::Exclusive, max_connections: 2 * connections as usize + 4_096, ..Config::default() };
    let app = Null { answer: Body::new(ANSWER.to_vec()) };
    let mut worker = Worker::new(config, listeners.for_worker(0), app).map_err(|why| why.to_string())?;
    worker.run(&mut Until(over)).map(|_: Usage| ()).map_err(|why| why.to_string())
}

struct Until<'a>(&'a AtomicBool);

impl Attendant<Null> for Until<'_> {
    fn attend(&mut self, _: &mut Worker<Null>, _: Time, _: &Usage) -> Next {
        if self.0.load(Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }
}

/// A server that looks for ends of heads, and answers each.
struct Null {
    answer: Body,
}

impl App for Null {
    fn on_open<N: Net>(&mut self, _: &mut N, _: ConnId, _: Opened) {}

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        const END: &[u8] = b"\r\n\r\n";
        let mut used = 0;
        for end in memmem::find_iter(data, END) {
            let head = data.get(used..end).unwrap_or_default();
            used = end + END.len();
            net.send_body(id, &self.answer, 0..self.answer.len());
            // As the generator writes it (RFC 9112 §9.6).
            if memmem::find(head, b"Connection: close").is_some() {
                net.finish(id);
                return data.len();
            }
        }
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _: usize) {
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, _: &mut N, _: ConnId) {}

    fn on_timer<N: Net>(&mut self, _: &mut N, _: ConnId) {}

    fn on_close<N: Net>(&mut self, _: &mut N, _: ConnId, _: Closed) {}

    fn on_turn<N: Net>(&mut self, _: &mut N) -> Wake {
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _: &mut N) -> bool {
        true
    }
}
