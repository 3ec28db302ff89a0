//! Workers in their pods: they come, begin, measure, and end; and what goes wrong with them.

use super::{ALONE_LIMIT, Controller, Event, Fault, Worker, World};
use control::{ChannelId, Part, Progress};
use core::time::Duration;
use messages::{Hello, Reporter, Token};
use serde_json::{Value, json};
use wire::Time;

impl World {
    pub(super) fn begin(&mut self, pod: u64, index: u32, token: &str, place: String) {
        let test = usize::from(place == "c-1:7000");
        let token = Token::read(token).expect("a token");
        let hello = Hello { token, worker: index, instance: self.random.bits(), version: "1".to_owned() };
        let worker = Worker {
            test,
            index,
            side: Reporter::new(hello, self.now),
            place,
            channel: None,
            alone_since: self.now,
            begins: None,
            begun: None,
            ended: false,
            frozen: false,
        };
        self.workers.insert(pod, worker);
        let ms = self.random.up_to(200);
        self.after(Duration::from_millis(ms), Event::Connects(pod));
        let ms = 100 + self.random.up_to(1_500);
        self.after(Duration::from_millis(ms), Event::Prepared(pod));
    }

    pub(super) fn connect(&mut self, pod: u64) {
        let Some(worker) = self.workers.get_mut(&pod).filter(|one| one.channel.is_none() && !one.frozen) else {
            return;
        };
        if self.now.since(worker.alone_since) > ALONE_LIMIT {
            return self.kill(pod, Some(json!({ "exitCode": 1, "reason": "Error" })));
        }
        let place = worker.place.clone();
        let listens = |one: &Controller| {
            let listens = one.control.as_ref().is_some_and(|control| control.progress() != Progress::Over);
            listens && one.place == place && !one.is_over
        };
        let found = self.controllers.iter().position(|one| one.as_ref().is_some_and(listens));
        let Some(number) = found else { return self.after(Duration::from_millis(200), Event::Connects(pod)) };
        self.next_channel += 1;
        let channel = ChannelId(self.next_channel);
        self.channels.insert(channel, (number, pod));
        worker.channel = Some(channel);
        worker.side.on_connected(self.now);
        if let Some(control) = self.controllers[number].as_mut().and_then(|one| one.control.as_mut()) {
            control.on_connected(channel, self.now);
        }
    }

    pub(super) fn act_worker(&mut self, pod: u64) -> bool {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(&pod).filter(|one| !one.frozen) else { return false };
        if worker.side.is_over() {
            self.kill(pod, Some(json!({ "exitCode": 0, "reason": "Completed" })));
            return true;
        }
        if let Some(start) = worker.side.start()
            && worker.begins.is_none()
        {
            worker.begins = Some(start);
            let us = self.random.up_to(900);
            self.after(start.since(now) + Duration::from_micros(us), Event::Begins(pod));
            return true;
        }
        if worker.side.is_stopped() && !worker.ended {
            self.measure(pod);
            return true;
        }
        let Some((channel, word)) = worker.channel.and_then(|channel| Some((channel, worker.side.poll_send(now)?)))
        else {
            return false;
        };
        self.after(Duration::from_millis(1), Event::ToControl(channel, word));
        true
    }

    pub(super) fn measure(&mut self, pod: u64) {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(&pod).filter(|one| !one.frozen && !one.ended) else { return };
        worker.ended = true;
        let begun = worker.begun;
        let begun_ns = begun.map(Time::as_nanos).into_iter().collect();
        worker.side.on_measured(Part { measured: 1 << worker.index, begun_ns, faults: Vec::new() }, now);
        self.note_load(pod);
    }

    fn note_load(&mut self, pod: u64) {
        let Some(worker) = self.workers.get_mut(&pod) else { return };
        if let Some(begun) = worker.begun.take() {
            self.tests[worker.test].seen.loads.push((begun, self.now));
        }
    }

    /// A process ends, with a code or for a reason that its pod's status says; none of a pod that is gone.
    pub(super) fn kill(&mut self, pod: u64, ended: Option<Value>) {
        self.note_load(pod);
        let Some(worker) = self.workers.remove(&pod) else { return };
        if let Some(channel) = worker.channel.filter(|_| !worker.frozen) {
            self.after(Duration::from_millis(1), Event::ClosedAtControl(channel));
        }
        if let Some(ended) = ended {
            let phase = if ended["exitCode"] == 0 { "Succeeded" } else { "Failed" };
            let status = json!({ "phase": phase, "containerStatuses": [{ "state": { "terminated": ended } }] });
            self.cluster.end_process(pod, status);
        }
    }

    /// What goes wrong, goes wrong now.
    pub(super) fn strike(&mut self) {
        let index = self.setting.fault_at.1;
        let is_victim = |(_, one): &(&u64, &Worker)| one.test == 0 && one.index == index && !one.ended;
        let victim = self.workers.iter().find(is_victim).map(|(pod, _)| *pod);
        let mut struck = victim.is_some();
        match (self.setting.fault, victim) {
            (Fault::Killed { out_of_memory }, Some(pod)) => {
                let reason = if out_of_memory { "OOMKilled" } else { "Error" };
                self.kill(pod, Some(json!({ "exitCode": 137, "reason": reason })));
            }
            (Fault::Deleted, Some(pod)) => {
                if let Some(pod) = self.cluster.pods.get_mut(&pod) {
                    pod.gone_at = Some(self.now + Duration::from_millis(700));
                }
            }
            (Fault::Node, Some(pod)) => {
                let node = self.cluster.pods.get(&pod).map_or(0, |pod| pod.node);
                self.cluster.dead.insert(node, self.now);
                for (pod, worker) in &mut self.workers {
                    if self.cluster.pods.get(pod).is_some_and(|pod| pod.node == node) {
                        worker.frozen = true;
                        let load = worker.begun.take().map(|begun| (begun, self.now));
                        self.tests[worker.test].seen.loads.extend(load);
                    }
                }
            }
            (Fault::Object(kind), _) => struck = self.cluster.delete(kind),
            (Fault::Killed { .. } | Fault::Deleted | Fault::Node | Fault::None, _) => {}
        }
        if struck {
            self.tests[0].seen.struck = Some(self.now);
        }
    }
}
