//! `--connections`: a few connections of each silo, as `ss -ti` shows the kernel's.
//!
//! They are asked for on the page, and each silo answers when it next publishes: one that sleeps, up to
//! a second later.

use super::program::{Program, what_is_a_silo};
use core::fmt::{self, Display};
use core::time::Duration;
use cpu::Clock;
use figures::si;
use page::{Reader, Samples};
use say::{Failure, println};
use serde_json::{Value, json};
use stack::ConnectionSample;
use std::io::{Write, stdout};
use std::thread;
use tcp::{CongestionState, State};
use wire::Time;

/// Answers are waited for so long: a silo that sleeps looks at its page each second.
const PATIENCE: Duration = Duration::from_secs(3);

/// And looked for this often.
const LOOK: Duration = Duration::from_millis(10);

/// What a silo answered; `None`: nothing.
type Answer = (usize, Option<Samples>);

/// Asks each process, and prints what its silos answer.
pub(super) fn connections(readers: &[Reader], json: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let mut pages = Vec::new();
    let asked = readers.iter().filter(|reader| reader.has_samples());
    let asked: Vec<(&Reader, Vec<Answer>)> =
        asked.map(|reader| Ok((reader, ask(reader)?))).collect::<Result<_, Failure>>()?;
    if asked.is_empty() && !json {
        drop(out);
        println!("no process of these has connections on our own stack: ss -ti shows the kernel's");
        return Ok(());
    }
    for (reader, answers) in asked {
        if json {
            let silos: Vec<Value> = answers.iter().map(answer_json).collect();
            pages.push(json!({ "pid": reader.pid(), "label": reader.label(), "silos": silos }));
        } else {
            let what = what_is_a_silo(Program::of(reader).as_ref());
            writeln!(out, "{} {}", reader.pid(), reader.label())?;
            answers.iter().try_for_each(|answer| print_answer(&mut out, what, answer))?;
        }
    }
    if json {
        writeln!(out, "{}", Value::Array(pages))?;
    }
    Ok(())
}

/// Asks a process's silos for connections, and waits for their answers.
fn ask(reader: &Reader) -> Result<Vec<Answer>, Failure> {
    let fail = |why: page::PageError| Failure::from(format!("the page of process {}: {why}", reader.pid()));
    let (program, snapshot) = (Program::of(reader), reader.snapshot().map_err(fail)?);
    // A seat that nobody has answers nothing.
    let answers = |silo: &usize| {
        let seat = snapshot.silos.get(*silo);
        program.as_ref().is_none_or(|program| seat.and_then(|seat| program.process(seat)).is_some())
    };
    // One that has no connection may sleep for long, and need not be asked.
    let open = reader.metrics().iter().position(|(name, _)| name == "stack.connections");
    let is_idle = |silo: usize| open.and_then(|at| snapshot.silos.get(silo)?.values.get(at)) == Some(&0);
    let number = reader.ask().map_err(fail)?;
    let until = Clock.now() + PATIENCE;
    let silos = (0..snapshot.silos.len()).filter(answers);
    let none = Samples { number, time: Time::ZERO, took: Duration::ZERO, total: 0, samples: Vec::new() };
    let mut found: Vec<Answer> = silos.map(|silo| (silo, is_idle(silo).then(|| none.clone()))).collect();
    loop {
        for (silo, answer) in found.iter_mut().filter(|(_, answer)| answer.is_none()) {
            *answer = reader.samples(*silo).map_err(fail)?.filter(|samples| samples.answers(number));
        }
        let is_whole = found.iter().all(|(_, answer)| answer.is_some());
        if is_whole || !reader.is_alive() || Clock.now() >= until {
            return Ok(found);
        }
        thread::sleep(LOOK);
    }
}

fn connections_of(samples: &Samples) -> impl Iterator<Item = ConnectionSample> + '_ {
    samples.samples.iter().filter_map(|words| ConnectionSample::from_words(words))
}

fn print_answer(out: &mut impl Write, what: &str, (silo, answer): &Answer) -> std::io::Result<()> {
    let Some(samples) = answer else {
        return writeln!(out, "  {what} {silo} does not answer: it is stopped, or computes");
    };
    let (some, total) = (samples.samples.len(), samples.total);
    let of = if some as u64 == total { String::new() } else { format!(", {some} of them:") };
    writeln!(out, "  {what} {silo}: {total} connections{of}")?;
    if some > 0 {
        writeln!(out, "{:<10} {:>8} {:<28} {:<28}", "State", "Send-Q", "Local", "Peer")?;
    }
    connections_of(samples).try_for_each(|sample| writeln!(out, "{}", Shown(&sample)))
}

/// A connection in two lines, in the words of `ss`.
struct Shown<'a>(&'a ConnectionSample);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sample = self.0;
        let (local, remote) = (sample.local.to_string(), sample.remote.to_string());
        writeln!(f, "{:<10} {:>8} {local:<28} {remote:<28}", state(sample.state), sample.unsent)?;
        write!(f, "        ")?;
        if sample.timestamps {
            f.write_str(" ts")?;
        }
        if sample.sack {
            f.write_str(" sack")?;
        }
        if sample.peer_shift > 0 || sample.own_shift > 0 {
            write!(f, " wscale:{},{}", sample.peer_shift, sample.own_shift)?;
        }
        if sample.srtt_us > 0 {
            write!(f, " rtt:{}/{}", f64::from(sample.srtt_us) / 1e3, f64::from(sample.rttvar_us) / 1e3)?;
        }
        let mss = u32::from(sample.mss).max(1);
        write!(f, " mss:{} cwnd:{}", sample.mss, sample.cwnd / mss)?;
        if sample.ssthresh != u32::MAX {
            write!(f, " ssthresh:{}", sample.ssthresh / mss)?;
        }
        write!(f, " snd_wnd:{} rcv_wnd:{}", sample.snd_wnd, sample.rcv_wnd)?;
        if sample.in_flight > 0 {
            write!(f, " unacked:{}", sample.in_flight.div_ceil(mss))?;
        }
        if sample.retrans > 0 || sample.retransmits > 0 {
            write!(f, " retrans:{}/{}", sample.retrans, sample.retransmits)?;
        }
        let counts = [("lost", sample.lost), ("sacked", sample.sacked), ("backoff", sample.backoff.into())];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, " {name}:{count}")?;
        }
        if sample.congestion_state != CongestionState::Open {
            write!(f, " {}", congestion_state(sample.congestion_state))?;
        }
        let rates = [("delivery_rate", sample.delivery_rate), ("pacing_rate", sample.pacing_rate)];
        for (name, rate) in rates.into_iter().filter_map(|(name, rate)| Some((name, rate?))) {
            write!(f, " {name} {}", si(rate as f64 * 8.0, "bit/s"))?;
        }
        Ok(())
    }
}

/// The names of `ss`.
const fn state(state: State) -> &'static str {
    match state {
        State::SynSent => "SYN-SENT",
        State::SynReceived => "SYN-RECV",
        State::Established => "ESTAB",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::LastAck => "LAST-ACK",
        State::TimeWait => "TIME-WAIT",
        State::Closed => "UNCONN",
    }
}

const fn congestion_state(state: CongestionState) -> &'static str {
    match state {
        CongestionState::Open => "open",
        CongestionState::Disorder => "disorder",
        CongestionState::Recovery => "recovery",
        CongestionState::Loss => "loss",
    }
}

fn answer_json((silo, answer): &Answer) -> Value {
    let Some(samples) = answer else { return json!({ "silo": silo, "answered": false }) };
    let took_us = samples.took.as_nanos() as f64 / 1e3;
    let connections: Vec<Value> = connections_of(samples).map(|sample| sample_json(&sample)).collect();
    json!({ "silo": silo, "answered": true, "took_us": took_us, "total": samples.total, "connections": connections })
}

fn sample_json(sample: &ConnectionSample) -> Value {
    json!({
        "state": state(sample.state), "local": sample.local.to_string(), "peer": sample.remote.to_string(),
        "congestion_state": congestion_state(sample.congestion_state),
        "unsent_bytes": sample.unsent, "in_flight_bytes": sample.in_flight,
        "mss": sample.mss, "cwnd_bytes": sample.cwnd,
        "ssthresh_bytes": (sample.ssthresh != u32::MAX).then_some(sample.ssthresh),
        "rtt_us": (sample.srtt_us > 0).then_some(sample.srtt_us), "rttvar_us": sample.rttvar_us,
        "send_window": sample.snd_wnd, "receive_window": sample.rcv_wnd,
        "window_scale": [sample.peer_shift, sample.own_shift],
        "sack": sample.sack, "timestamps": sample.timestamps, "backoff": sample.backoff,
        "retransmits": sample.retransmits, "retransmitted": sample.retrans, "lost": sample.lost,
        "sacked": sample.sacked,
        "delivery_rate": sample.delivery_rate, "pacing_rate": sample.pacing_rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ConnectionSample {
        ConnectionSample {
            local: "10.9.0.2:80".parse().unwrap(),
            remote: "10.9.0.1:40000".parse().unwrap(),
            state: State::Established,
            congestion_state: CongestionState::Recovery,
            sack: true,
            timestamps: true,
            peer_shift: 7,
            own_shift: 8,
            backoff: 0,
            mss: 1448,
            cwnd: 14_480,
            ssthresh: u32::MAX,
            srtt_us: 45,
            rttvar_us: 12,
            snd_wnd: 65_535,
            rcv_wnd: 1 << 20,
            in_flight: 1449,
            unsent: 2_000,
            retransmits: 3,
            sacked: 0,
            lost: 1,
            retrans: 1,
            delivery_rate: Some(125_000),
            pacing_rate: None,
        }
    }

    #[test]
    fn a_connection_is_shown_in_the_words_of_ss() {
        let shown = Shown(&sample()).to_string();
        let (first, second) = shown.split_once('\n').unwrap();
        assert_eq!(first.split_whitespace().collect::<Vec<_>>(), ["ESTAB", "2000", "10.9.0.2:80", "10.9.0.1:40000"]);
        let expected = "ts sack wscale:7,8 rtt:0.045/0.012 mss:1448 cwnd:10 snd_wnd:65535 rcv_wnd:1048576 unacked:2 \
                        retrans:1/3 lost:1 recovery delivery_rate";
        assert!(second.trim().starts_with(expected), "{second}");
    }

    #[test]
    fn who_does_not_answer_is_told_of() {
        let mut out = Vec::new();
        print_answer(&mut out, "seat", &(3, None)).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  seat 3 does not answer: it is stopped, or computes\n");
        assert_eq!(answer_json(&(3, None)), json!({ "silo": 3, "answered": false }));
        let samples = Samples {
            number: 1,
            time: Time::ZERO,
            took: Duration::from_micros(50),
            total: 100_000,
            samples: vec![sample().words().to_vec(), vec![u64::MAX; 16]],
        };
        let told = answer_json(&(0, Some(samples)));
        assert_eq!((told["total"].as_u64(), told["connections"].as_array().unwrap().len()), (Some(100_000), 1));
        assert_eq!(told["connections"][0]["peer"], "10.9.0.1:40000");
    }
}
