//! What queues cost when every worker is busy: a closed loop of connections,
//! each request occupying its worker for a while.
//!
//! One queue for all (`exclusive`) lets no worker idle while a connection
//! waits, so all wait alike; a queue for each (`reuseport`) leaves some
//! connections behind many others while another worker is free. Published for
//! twelve workers on twelve cores, 200 connections, 1.8 ms of service
//! (Majkowski: Why does one NGINX worker take all the load?, 2017), in ms:
//! shared queue min 3.61 avg 30.39 med 30.28 max 72.65 dev 1.58; one each
//! min 1.49 avg 31.37 med 24.67 max 144.55 dev 25.27.

mod client;
mod server;
mod service;

use super::{crew, models};
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::Busy;
use service::{Kind, Service};
use sockets::Model;
use std::collections::BTreeMap;

/// The most that may be asked for.
const MAX_CONNECTIONS: u32 = 10_000;
const MAX_REQUESTS: u64 = 100_000_000;

/// Who queues, and what it costs to be served.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Workers that serve.
    #[serde(default = "default_workers")]
    pub workers: u32,
    /// Connections at a time, each with one request under way.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Requests of each run.
    #[serde(default = "default_requests")]
    pub requests: u64,
    /// Ask again on the same connection; otherwise each request has a new one.
    #[serde(default)]
    pub keep_alive: bool,
    /// What a request costs: wait:1.8ms (the worker sleeps), burn:1.8ms (it
    /// computes), exp:1.8ms (it sleeps by chance, exponentially about this),
    /// auto:1.8ms (burn where every worker and the client have a core, else
    /// wait).
    #[serde(default = "default_service")]
    pub service: String,
    /// Accept models: blocking, epoll, exclusive, reuseport, local, least.
    #[serde(default = "models::all")]
    pub models: Vec<String>,
}

const fn default_workers() -> u32 {
    12
}

const fn default_connections() -> u32 {
    200
}

const fn default_requests() -> u64 {
    100_000
}

fn default_service() -> String {
    "auto:1.8ms".to_owned()
}

/// The experiment.
#[derive(Debug)]
pub struct AcceptQueue {
    settings: Settings,
    models: Vec<Model>,
    service: Service,
    /// Whether there is a core for each worker.
    enough: bool,
}

impl AcceptQueue {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let range = |what: &str, value: u64, most: u64| {
            let good = (1..=most).contains(&value);
            if good { Ok(()) } else { Err(format!("accept-queue: write 1 to {most} {what}")) }
        };
        range("workers", settings.workers.into(), crew::MAX_WORKERS.into())?;
        range("connections", settings.connections.into(), MAX_CONNECTIONS.into())?;
        range("requests", settings.requests, MAX_REQUESTS)?;
        let enough = crew::has_cores(settings.workers);
        let service: Service = settings.service.parse().map_err(|why| format!("accept-queue: service: {why}"))?;
        Ok(Self {
            settings: settings.clone(),
            models: models::read("accept-queue", &settings.models)?,
            service: service.for_cores(enough),
            enough,
        })
    }

    fn conditions(&self) -> BTreeMap<String, String> {
        let reuse = if self.settings.keep_alive { "kept alive" } else { "new for each request" };
        BTreeMap::from([
            ("workers".to_owned(), self.settings.workers.to_string()),
            ("connections".to_owned(), self.settings.connections.to_string()),
            ("reuse".to_owned(), reuse.to_owned()),
            ("service".to_owned(), self.service.to_string()),
            ("response".to_owned(), format!("{} B", server::RESPONSE.len())),
            ("link".to_owned(), "loopback".to_owned()),
        ])
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(AcceptQueue::new(self)?))
    }
}

impl Procedure for AcceptQueue {
    fn arms(&self) -> Vec<Arm> {
        models::arms(&self.models, &self.conditions(), |model| {
            let starves = model == Model::Blocking && self.settings.keep_alive;
            let more = self.settings.connections > self.settings.workers;
            (starves && more).then(|| {
                "a worker serves one connection to its end: with connections kept alive, as many as there are \
                 workers are served, and the others never"
                    .to_owned()
            })
        })
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::higher("throughput", "requests/s"),
            Figure::plain("min", "ms"),
            Figure::lower("mean", "ms"),
            Figure::lower("median", "ms"),
            Figure::lower("p99", "ms"),
            Figure::lower("max", "ms"),
            Figure::lower("dev", "ms"),
            Figure::plain("fairness", "Jain"),
            Figure::lower("largest share", "of an even one"),
            Figure::plain("served late", "µs"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let ideal = f64::from(self.settings.workers) / self.service.mean().as_secs_f64();
        let pinned = if self.enough { "each pinned to a core" } else { "not pinned; with local pinned by turns" };
        let kind = match self.service.kind {
            Kind::Burn => "computes, on a core of its own",
            _ => "sleeps, so that each worker is as busy as on a core of its own, on fewer cores than workers",
        };
        vec![
            format!("Service: {}: the worker {kind}. Workers: {pinned}.", self.service),
            format!("So many workers serve at most {} requests/s.", crate::number::number(ideal)),
            "Latency: from the connect (or the request, where connections are kept) to the response's last byte."
                .to_owned(),
            "Served late: how much longer than asked for a request occupied its worker, on average. Fairness: of \
             connections over workers. Largest share: the connections of the worker that has most, beside an even part."
                .to_owned(),
            "Model local: over loopback a connection arrives on the core that its client runs on; where the client \
             stays on one, the workers of that core serve all."
                .to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let (model, keep_alive) = (self.models[arm], self.settings.keep_alive);
        let (service, seed) = (self.service, setting.seed);
        let busy = |index: usize| Busy::new(service, seed.wrapping_add(index as u64), keep_alive);
        let plan = |address| client::Plan {
            address,
            connections: self.settings.connections,
            requests: self.settings.requests,
            keep_alive,
        };
        let (outcome, apps) = crew::beside(model, &crew::cores(model, self.settings.workers), busy, |crew| {
            crew.wait_asleep()?;
            client::run(&plan(crew.address), setting)
        })?;
        let shares: Vec<f64> = apps.iter().map(|busy| busy.taken as f64).collect();
        let served: f64 = apps.iter().map(|busy| busy.served as f64).sum();
        let late: f64 = apps.iter().map(|busy| busy.late.as_secs_f64()).sum();
        let summary = outcome.latencies.milliseconds();
        let figures = [
            ("throughput", summary.count as f64 / outcome.seconds.max(1e-9)),
            ("min", summary.min),
            ("mean", summary.mean),
            ("median", summary.median),
            ("p99", outcome.latencies.at(0.99)),
            ("max", summary.max),
            ("dev", summary.deviation),
            ("fairness", stats::jain(&shares)),
            ("largest share", largest_share(&shares)),
            ("served late", late * 1e6 / served.max(1.0)),
        ];
        let mut run = Run { errors: outcome.errors, latency: Some(outcome.latencies.distribution()), ..Run::default() };
        run.figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let counts: Vec<String> = apps.iter().map(|busy| busy.served.to_string()).collect();
        run.details.insert("requests of each worker".to_owned(), counts.join(" "));
        let counts: Vec<String> = apps.iter().map(|busy| busy.taken.to_string()).collect();
        run.details.insert("connections of each worker".to_owned(), counts.join(" "));
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let figure = |model: &str, figure: &str| arms.iter().find(|arm| arm.name == model)?.median(figure);
        let mut checks = Vec::new();
        let mut check = |what: &str, found: Option<f64>, unit: &str, keeps: &dyn Fn(f64) -> bool| {
            let text = found.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}{unit}"));
            checks.push(Check { what: what.to_owned(), found: text, kept: found.map(keeps) });
        };
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        check("no request fails", Some(failed as f64), "", &|failed| failed == 0.0);
        let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below.filter(|below| *below > 0.0)?);
        let deviation = |model| figure(model, "dev");
        let least = ratio(deviation("least"), deviation("exclusive"));
        let rate = ratio(figure("least", "throughput"), figure("reuseport", "throughput"));
        let kept_up = |ratio: f64| ratio >= 0.98;
        if self.settings.keep_alive {
            let even = figure("least", "fairness");
            check("least, connections kept: shared out evenly over the workers (Jain)", even, "", &|j| j >= 0.99);
            let share = figure("least", "largest share");
            check("least, connections kept: largest share, at most 1.5", share, "", &|share| share <= 1.5);
            let narrow = ratio(deviation("least"), deviation("reuseport"));
            check("least, connections kept: dev beside reuseport's, less than", narrow, "", &|ratio| ratio < 1.0);
        } else {
            let share = ratio(deviation("exclusive"), figure("exclusive", "mean"));
            check("exclusive, a shared queue: dev ÷ mean, at most 0.25", share, "", &|share| share <= 0.25);
            let wide = ratio(deviation("reuseport"), deviation("exclusive"));
            check("reuseport: dev beside exclusive's, at least 10", wide, "", &|ratio| ratio >= 10.0);
            check("least: dev beside exclusive's, at most 1.5", least, "", &|ratio| ratio <= 1.5);
        }
        check("least: throughput beside reuseport's, at least 0.98", rate, "", &kept_up);
        checks
    }
}

/// The largest of these beside their mean.
fn largest_share(all: &[f64]) -> f64 {
    let mean = all.iter().sum::<f64>() / (all.len().max(1) as f64);
    all.iter().copied().fold(0.0, f64::max) / if mean > 0.0 { mean } else { 1.0 }
}

#[cfg(test)]
mod tests;
