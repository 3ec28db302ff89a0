//! Tables and JSON of what processes' traffic did.

use super::report::{Amount, Crossed, Flow, Model, Process, SiloFigures, WorkerFigures};
use core::fmt;
use serde_json::{Value, json};
use topology::{Ranges, Topology};

/// What a process's traffic did, and what it may be held against.
pub struct NumaAccount<'a> {
    pub process: &'a Process,
    pub topology: &'a Topology,
}

impl fmt::Display for NumaAccount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, topology } = self;
        writeln!(f, "{} {}", process.pid, process.label)?;
        if !process.workers.is_empty() {
            return workers(f, process, topology);
        }
        writeln!(
            f,
            "  {:>4}  {:>4}  {:>6}  {:>12}  {:>12}  {:>12}",
            "silo", "core", "domain", "pages here", "elsewhere", "untouched"
        )?;
        for (index, silo) in process.silos.iter().enumerate() {
            let core = silo.core.map_or("-".to_owned(), |core| core.to_string());
            let (here, away, absent) = (silo.pages_local, silo.pages_remote, silo.pages_absent);
            let note = match silo {
                SiloFigures { interleaved: true, .. } => "  interleaved on purpose",
                SiloFigures { looks: 0, .. } => "  not looked at",
                _ => "",
            };
            writeln!(f, "  {index:>4}  {core:>4}  {:>6}  {here:>12}  {away:>12}  {absent:>12}{note}", silo.domain)?;
        }
        if topology.domains.len() < 2 {
            return Ok(());
        }
        let heads = ["arrival", "memory", "departure", "frames in", "bytes in", "frames out", "bytes out"];
        let [a, b, c, d, e, g, h] = heads;
        writeln!(f, "  {a:>7}  {b:>6}  {c:>9}  {d:>12}  {e:>16}  {g:>12}  {h:>16}")?;
        let place = |domain: Option<u16>| domain.map_or("-".to_owned(), |domain| domain.to_string());
        for ((arrival, memory, departure), Flow { received, sent }) in &process.flows {
            let (arrival, departure) = (place(*arrival), place(*departure));
            let (from, to) = ((received.frames, received.bytes), (sent.frames, sent.bytes));
            writeln!(
                f,
                "  {arrival:>7}  {memory:>6}  {departure:>9}  {:>12}  {:>16}  {:>12}  {:>16}",
                from.0, from.1, to.0, to.1
            )?;
        }
        for ((silo, content), Amount { frames, bytes }) in &process.content {
            writeln!(
                f,
                "  content of domain {content} sent by silos of domain {silo}: {frames} frames, {bytes} bytes"
            )?;
        }
        for ((silo, memory), Flow { received, sent }) in &process.buffers {
            writeln!(
                f,
                "  frames of silos of domain {silo} that lay in domain {memory}: {} in, {} bytes; {} out, {} bytes",
                received.frames, received.bytes, sent.frames, sent.bytes
            )?;
        }
        let Crossed { received, sent, content, steered, received_memory, sent_memory } = process.crossed;
        writeln!(
            f,
            "  crossed: {received} bytes received, {sent} sent, {content} of content, {steered} between silos, \
             {received_memory} received and {sent_memory} sent through memory elsewhere"
        )?;
        let model = Model::of(topology.domains.len());
        writeln!(f, "  share of bytes received and sent that crossed: {:.4}", process.crossed_share())?;
        writeln!(f, "  crossings per byte sent: {:.4}", process.crossings_per_byte_sent())?;
        writeln!(
            f,
            "  by the model: {} at worst (read, encrypt, write and send all apart), {:.2} expected with silos at \
             their ports, {} with a copy of hot content in each domain",
            model.worst, model.siloed, model.hot_cache
        )
    }
}

/// Workers over kernel sockets, and the interfaces that there are for them.
fn workers(f: &mut fmt::Formatter<'_>, process: &Process, topology: &Topology) -> fmt::Result {
    let heads = ["worker", "core", "domain", "accepted", "open", "bytes in", "bytes out"];
    let [a, b, c, d, e, g, h] = heads;
    writeln!(f, "  {a:>6}  {b:>5}  {c:>6}  {d:>10}  {e:>8}  {g:>14}  {h:>14}  packets came in on")?;
    for (index, worker) in process.workers.iter().enumerate() {
        let (core, domain) =
            worker.place.map_or(("any".to_owned(), "-".to_owned()), |(core, at)| (core.to_string(), at.to_string()));
        let (looks, far) = worker.looks();
        let seen: Vec<String> = worker.seen.iter().map(|(at, count)| format!("domain {at}: {count}")).collect();
        let seen = match looks {
            0 => "-".to_owned(),
            _ if worker.place.is_none() => seen.join(", "),
            _ => format!("{} ({far} of {looks} elsewhere)", seen.join(", ")),
        };
        let WorkerFigures { accepted, connections, received_bytes, sent_bytes, .. } = worker;
        writeln!(
            f,
            "  {index:>6}  {core:>5}  {domain:>6}  {accepted:>10}  {connections:>8}  {received_bytes:>14}  \
             {sent_bytes:>14}  {seen}"
        )?;
    }
    for interface in topology.interfaces.iter().filter(|interface| interface.device) {
        let place = interface.domain.map_or("in an unknown domain".to_owned(), |domain| format!("in domain {domain}"));
        let cores: std::collections::BTreeSet<u16> =
            interface.interrupts.iter().flat_map(|(_, cores)| cores).copied().collect();
        let cores: Vec<u16> = cores.into_iter().collect();
        let where_to = match cores.is_empty() {
            true => "interrupts unknown".to_owned(),
            false => format!("interrupts on cores {}", Ranges(&cores)),
        };
        writeln!(f, "  {} is {place}, {where_to}", interface.name)?;
    }
    writeln!(
        f,
        "  where packets came in is looked at now and then: the core that took the last one of a connection. Not known \
         of kernel sockets: by which interface a connection came, where the kernel has its buffers, and how many bytes \
         crossed"
    )
}

// The shape of `nearside numa --json`, which other programs read:
//
// ```text
// { "domains": 2,
//   "model": { "worst": 4.0, "siloed": 0.5, "hot_cache": 0.0 },
//   "processes": [ {
//     "pid", "label",
//     "silos": [ { "silo", "core" or null, "domain", "interleaved",
//                  "pages": { "local", "remote", "absent", "looks" } } ],
//     "workers": [ { "worker", "core" or null, "domain" or null, "accepted", "connections",
//                    "received_bytes", "sent_bytes", "seen": [ { "domain", "connections" } ] } ],
//     "flows": [ { "arrival" or null, "memory", "departure" or null,
//                  "received_frames", "received_bytes", "sent_frames", "sent_bytes" } ],
//     "content": [ { "silo_domain", "content_domain", "frames", "bytes" } ],
//     "buffers": [ { "silo_domain", "memory_domain",
//                    "received_frames", "received_bytes", "sent_frames", "sent_bytes" } ],
//     "received_bytes", "sent_bytes",
//     "crossed": { "received_bytes", "sent_bytes", "content_bytes", "steered_bytes",
//                  "received_memory_bytes", "sent_memory_bytes" },
//     "crossed_share", "crossings_per_byte_sent" } ] }
//
// What crossed is null for a process with workers, of which it is not known.
// ```

pub fn model_json(topology: &Topology) -> Value {
    let Model { worst, siloed, hot_cache } = Model::of(topology.domains.len());
    json!({ "worst": worst, "siloed": siloed, "hot_cache": hot_cache })
}

pub fn process_json(process: &Process) -> Value {
    let silo = |(index, silo): (usize, &SiloFigures)| {
        json!({
            "silo": index,
            "core": silo.core,
            "domain": silo.domain,
            "interleaved": silo.interleaved,
            "pages": {
                "local": silo.pages_local,
                "remote": silo.pages_remote,
                "absent": silo.pages_absent,
                "looks": silo.looks,
            },
        })
    };
    let flow = |(way, flow): (&super::report::Way, &Flow)| {
        json!({
            "arrival": way.0,
            "memory": way.1,
            "departure": way.2,
            "received_frames": flow.received.frames,
            "received_bytes": flow.received.bytes,
            "sent_frames": flow.sent.frames,
            "sent_bytes": flow.sent.bytes,
        })
    };
    let content = |((silo, content), amount): (&(u16, u16), &Amount)| {
        let Amount { frames, bytes } = amount;
        json!({ "silo_domain": silo, "content_domain": content, "frames": frames, "bytes": bytes })
    };
    let buffers = |((silo, memory), Flow { received, sent }): (&(u16, u16), &Flow)| {
        json!({
            "silo_domain": silo,
            "memory_domain": memory,
            "received_frames": received.frames,
            "received_bytes": received.bytes,
            "sent_frames": sent.frames,
            "sent_bytes": sent.bytes,
        })
    };
    let Crossed { received, sent, content: far, steered, received_memory, sent_memory } = process.crossed;
    // Of kernel sockets it is not known what crossed: nothing is not zero.
    let known = process.workers.is_empty();
    json!({
        "pid": process.pid,
        "label": process.label,
        "silos": process.silos.iter().enumerate().map(silo).collect::<Vec<_>>(),
        "workers": process.workers.iter().enumerate().map(worker_json).collect::<Vec<_>>(),
        "flows": process.flows.iter().map(flow).collect::<Vec<_>>(),
        "content": process.content.iter().map(content).collect::<Vec<_>>(),
        "buffers": process.buffers.iter().map(buffers).collect::<Vec<_>>(),
        "received_bytes": process.received_bytes,
        "sent_bytes": process.sent_bytes,
        "crossed": known.then(|| json!({
            "received_bytes": received,
            "sent_bytes": sent,
            "content_bytes": far,
            "steered_bytes": steered,
            "received_memory_bytes": received_memory,
            "sent_memory_bytes": sent_memory,
        })),
        "crossed_share": known.then(|| process.crossed_share()),
        "crossings_per_byte_sent": known.then(|| process.crossings_per_byte_sent()),
    })
}

fn worker_json((index, worker): (usize, &WorkerFigures)) -> Value {
    let seen = worker.seen.iter().map(|(domain, count)| json!({ "domain": domain, "connections": count }));
    json!({
        "worker": index,
        "core": worker.place.map(|(core, _)| core),
        "domain": worker.place.map(|(_, domain)| domain),
        "accepted": worker.accepted,
        "connections": worker.connections,
        "received_bytes": worker.received_bytes,
        "sent_bytes": worker.sent_bytes,
        "seen": seen.collect::<Vec<_>>(),
    })
}
