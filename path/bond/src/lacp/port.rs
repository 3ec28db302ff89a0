//! One port's machines.

use super::answer;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;
use wire::lacp::{LacpPdu, Marker, PortInfo, PortState, SlowPdu};

// IEEE 802.1AX-2014 clause 6.4.4.
const FAST_PERIODIC_TIME: Duration = Duration::from_secs(1);
const SLOW_PERIODIC_TIME: Duration = Duration::from_secs(30);
const SHORT_TIMEOUT_TIME: Duration = Duration::from_secs(3);
const LONG_TIMEOUT_TIME: Duration = Duration::from_secs(90);
const CHURN_DETECTION_TIME: Duration = Duration::from_secs(60);
const AGGREGATE_WAIT_TIME: Duration = Duration::from_secs(2);

/// Data units in any [`FAST_PERIODIC_TIME`] (802.1AX-2014 clause 6.4.16).
const MAX_PDUS: usize = 3;

/// Markers waiting for their answer; more are not answered, and counted.
/// 802.1AX-2014 clause 6.5.4.2.1 allows a partner five in a second.
const MAX_MARKERS: usize = 8;

/// The state of the receive machine (802.1AX-2014 clause 6.4.12, figure 6-18).
///
/// ```text
///                      ┌───────────────────────── link down, from all ──┐
///                      ▼                                                │
///   INITIALIZE ─► PORT_DISABLED ─ link up ─► EXPIRED ─ 3 s ─► DEFAULTED │
///      ▲               │                      ▲   │               │     │
///      └─ port moved ──┘               silent │   └── data unit ──┤     │
///                                     for 3 s │                   ▼     │
///                                     or 90 s └──────────────  CURRENT ─┘
/// ```
///
/// INITIALIZE is passed through and never stayed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveState {
    /// The link is down.
    PortDisabled,
    /// The partner is no longer, or not yet, heard, and asked to speak up.
    Expired,
    /// There is no partner.
    Defaulted,
    /// The partner is heard.
    Current,
}

/// What selection says of a port (802.1AX-2014 clause 6.4.8, the variable
/// Selected).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selected {
    /// It has no partner, or must let go of the one it had.
    Unselected,
    /// It is part of the aggregation.
    Selected,
    /// It could be, but other ports are.
    Standby,
}

/// The state of the mux machine, collecting and distributing controlled
/// independently (802.1AX-2014 clause 6.4.15, figure 6-22).
///
/// ```text
///   DETACHED ─ chosen ─► WAITING ─ 2 s ─► ATTACHED ─ partner in sync ─► COLLECTING ─ partner collects ─► DISTRIBUTING
///      ▲                    │                │ ▲                          │ ▲                               │
///      ├─── not chosen ─────┴────────────────┘ └── or partner not in sync ┘ └── or partner not collecting ──┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mux {
    /// Not part of the aggregation.
    Detached,
    /// About to be: for a while, so that ports that come up together join
    /// together.
    Waiting,
    /// Part of it, and says so.
    Attached,
    /// Takes frames.
    Collecting,
    /// Takes and sends frames.
    Distributing,
}

impl ReceiveState {
    /// The state whose number (`as u8`) this is; else that of a port whose
    /// link is down.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Expired,
            2 => Self::Defaulted,
            3 => Self::Current,
            _ => Self::PortDisabled,
        }
    }
}

impl Selected {
    /// What has this number (`as u8`); else not selected.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Selected,
            2 => Self::Standby,
            _ => Self::Unselected,
        }
    }
}

impl Mux {
    /// The state whose number (`as u8`) this is; else that of a port which is
    /// not part of the aggregation.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Waiting,
            2 => Self::Attached,
            3 => Self::Collecting,
            4 => Self::Distributing,
            _ => Self::Detached,
        }
    }
}

/// Churn detection (802.1AX-2014 clause 6.4.17): whether a side does not get
/// into sync although the link is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Churn {
    None,
    /// It is churn from then on.
    Monitor(Time),
    Detected,
}

/// What passed at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LacpCounters {
    /// Data units of link aggregation control received.
    pub pdus_in: u64,
    /// Data units of link aggregation control sent.
    pub pdus_out: u64,
    /// Markers received: questions.
    pub markers_in: u64,
    /// Markers answered.
    pub markers_out: u64,
    /// Markers beyond the limit, not answered.
    pub markers_dropped: u64,
    /// Our own data units come back: the port's link ends at ourselves.
    pub looped: u64,
    /// Data units of slow protocols that could not be parsed.
    pub malformed: u64,
    /// Times that the partner fell silent.
    pub expired: u64,
    /// Times that this side was out of sync for a minute with the link up.
    pub actor_churn: u64,
    /// Times that the partner was.
    pub partner_churn: u64,
}

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    actor: PortInfo,
    partner: PortInfo,
    receive: ReceiveState,
    /// When the partner is silent for too long.
    current_while: Option<Time>,
    selected: Selected,
    mux: Mux,
    /// Until when the port waits to be attached; `None` once it need not.
    wait_while: Option<Time>,
    /// When the partner wants to hear something again; `None` if neither
    /// side is active.
    periodic: Option<(Duration, Time)>,
    need_to_transmit: bool,
    /// When the last were sent, the oldest first.
    sent: [Option<Time>; MAX_PDUS],
    markers: VecDeque<Marker>,
    actor_churn: Churn,
    partner_churn: Churn,
    counters: LacpCounters,
}

impl Port {
    pub(super) fn new(actor: PortInfo) -> Self {
        let mut port = Self {
            actor,
            partner: PortInfo::default(),
            receive: ReceiveState::PortDisabled,
            current_while: None,
            selected: Selected::Unselected,
            mux: Mux::Detached,
            wait_while: None,
            periodic: None,
            need_to_transmit: false,
            sent: [None; MAX_PDUS],
            markers: VecDeque::new(),
            actor_churn: Churn::None,
            partner_churn: Churn::None,
            counters: LacpCounters::default(),
        };
        port.forget();
        port
    }

    /// What this side says of itself.
    #[must_use]
    pub const fn actor(&self) -> &PortInfo {
        &self.actor
    }

    /// What is known of the other side.
    #[must_use]
    pub const fn partner(&self) -> &PortInfo {
        &self.partner
    }

    /// The receive machine's state.
    #[must_use]
    pub const fn receive(&self) -> ReceiveState {
        self.receive
    }

    /// The mux machine's state.
    #[must_use]
    pub const fn mux(&self) -> Mux {
        self.mux
    }

    /// What selection says.
    #[must_use]
    pub const fn selected(&self) -> Selected {
        self.selected
    }

    /// What passed.
    #[must_use]
    pub const fn counters(&self) -> LacpCounters {
        self.counters
    }

    /// Whether one of the sides does not get into sync, the actor first.
    #[must_use]
    pub fn churns(&self) -> [bool; 2] {
        [self.actor_churn == Churn::Detected, self.partner_churn == Churn::Detected]
    }

    pub(super) fn enabled(&self) -> bool {
        self.receive != ReceiveState::PortDisabled
    }

    /// The partner, if one was heard.
    pub(super) fn known_partner(&self) -> Option<&PortInfo> {
        (self.enabled() && !self.actor.state.has(PortState::DEFAULTED)).then_some(&self.partner)
    }

    /// Whether this side knows `info`'s port as its partner.
    pub(super) fn is_partner(&self, info: &PortInfo) -> bool {
        let known = !self.actor.state.has(PortState::DEFAULTED);
        known && (self.partner.system, self.partner.port) == (info.system, info.port)
    }

    // The receive machine.

    pub(super) fn on_link(&mut self, up: bool, now: Time) {
        if up == self.enabled() {
            return;
        }
        self.set_partner(PortState::SYNCHRONIZATION, false);
        if up {
            self.expire(now);
            self.need_to_transmit = true;
        } else {
            self.receive = ReceiveState::PortDisabled;
            self.current_while = None;
            self.markers.clear();
        }
        self.step_periodic(now);
    }

    /// INITIALIZE: as if there had never been a partner.
    pub(super) fn forget(&mut self) {
        self.selected = Selected::Unselected;
        self.record_default();
        self.set_actor(PortState::EXPIRED, false);
    }

    pub(super) fn on_pdu(&mut self, pdu: &LacpPdu, now: Time) {
        self.counters.pdus_in += 1;
        // update_Selected: another partner than the one selected for.
        if !same_port(&pdu.actor, &self.partner, PortState::AGGREGATION) {
            self.selected = Selected::Unselected;
        }
        // update_NTT: the partner's view of this side is old.
        let told = PortState::ACTIVITY | PortState::SHORT_TIMEOUT | PortState::SYNCHRONIZATION | PortState::AGGREGATION;
        self.need_to_transmit |= !same_port(&pdu.partner, &self.actor, told);
        self.record(pdu);
        self.receive = ReceiveState::Current;
        self.current_while = Some(now + self.timeout());
        self.set_actor(PortState::EXPIRED, false);
        self.step_periodic(now);
    }

    /// recordPDU. The partner counts as in sync if it says so, and means this
    /// port, or a link of its own; and if one of the sides speaks unasked, so
    /// that a change will be heard of.
    fn record(&mut self, pdu: &LacpPdu) {
        let means_us = same_port(&pdu.partner, &self.actor, PortState::AGGREGATION);
        let alone = !pdu.actor.state.has(PortState::AGGREGATION);
        let asks_us = self.actor.state.has(PortState::ACTIVITY) && pdu.partner.state.has(PortState::ACTIVITY);
        let speaks = pdu.actor.state.has(PortState::ACTIVITY) || asks_us;
        let in_sync = pdu.actor.state.has(PortState::SYNCHRONIZATION);
        self.partner = pdu.actor;
        self.set_partner(PortState::SYNCHRONIZATION, in_sync && speaks && (means_us || alone));
        self.set_actor(PortState::DEFAULTED, false);
    }

    /// recordDefault: nobody, to be asked each second.
    fn record_default(&mut self) {
        self.partner = PortInfo { state: PortState::SHORT_TIMEOUT, ..PortInfo::default() };
        self.set_actor(PortState::DEFAULTED, true);
    }

    pub(super) fn on_loop(&mut self) {
        self.counters.looped += 1;
    }

    pub(super) fn on_marker(&mut self, marker: &Marker) {
        if marker.response || !self.enabled() {
            return;
        }
        self.counters.markers_in += 1;
        if self.markers.len() < MAX_MARKERS {
            self.markers.push_back(*marker);
        } else {
            self.counters.markers_dropped += 1;
        }
    }

    /// EXPIRED.
    fn expire(&mut self, now: Time) {
        self.receive = ReceiveState::Expired;
        self.set_partner(PortState::SYNCHRONIZATION, false);
        self.set_partner(PortState::SHORT_TIMEOUT, true);
        self.current_while = Some(now + SHORT_TIMEOUT_TIME);
        self.set_actor(PortState::EXPIRED, true);
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.current_while.is_some_and(|at| at <= now) {
            if self.receive == ReceiveState::Current {
                self.counters.expired += 1;
                self.expire(now);
            } else {
                self.receive = ReceiveState::Defaulted;
                self.current_while = None;
                self.forget();
            }
        }
        self.wait_while = self.wait_while.filter(|at| *at > now);
        self.step_periodic(now);
    }

    fn timeout(&self) -> Duration {
        if self.actor.state.has(PortState::SHORT_TIMEOUT) { SHORT_TIMEOUT_TIME } else { LONG_TIMEOUT_TIME }
    }

    // The periodic transmission machine (802.1AX-2014 clause 6.4.13).

    fn step_periodic(&mut self, now: Time) {
        let active = (self.actor.state.0 | self.partner.state.0) & PortState::ACTIVITY.0 != 0;
        if !self.enabled() || !active {
            self.periodic = None;
            return;
        }
        let short = self.partner.state.has(PortState::SHORT_TIMEOUT);
        let period = if short { FAST_PERIODIC_TIME } else { SLOW_PERIODIC_TIME };
        let due = match self.periodic {
            None => false,
            // A partner that wants to hear more often hears at once.
            Some((before, at)) => at <= now || period < before,
        };
        self.need_to_transmit |= due;
        if due || self.periodic.is_none_or(|(before, _)| before != period) {
            self.periodic = Some((period, now + period));
        }
    }

    // Selection and the mux machine.

    /// What selection says. One that must let go of its partner does so first.
    pub(super) fn select(&mut self, selected: Selected) {
        if self.selected != Selected::Unselected || self.mux == Mux::Detached {
            self.selected = selected;
        }
    }

    /// Whether this port does not hold up others that are to be attached with
    /// it (the variables Ready_N and Ready of 802.1AX-2014 clause 6.4.8).
    pub(super) fn is_ready(&self) -> bool {
        self.mux != Mux::Waiting || self.selected != Selected::Selected || self.wait_while.is_none()
    }

    /// Takes at most one step, and returns whether it did.
    pub(super) fn step_mux(&mut self, ready: bool, now: Time) -> bool {
        let selected = self.selected == Selected::Selected;
        let in_sync = self.partner.state.has(PortState::SYNCHRONIZATION);
        let collects = self.partner.state.has(PortState::COLLECTING);
        let next = match self.mux {
            Mux::Detached if self.selected != Selected::Unselected => Mux::Waiting,
            Mux::Waiting if self.selected == Selected::Unselected => Mux::Detached,
            Mux::Waiting if selected && ready => Mux::Attached,
            Mux::Attached if !selected => Mux::Detached,
            Mux::Attached if in_sync => Mux::Collecting,
            Mux::Collecting if !selected || !in_sync => Mux::Attached,
            Mux::Collecting if collects => Mux::Distributing,
            Mux::Distributing if !selected || !in_sync || !collects => Mux::Collecting,
            stays => stays,
        };
        if next == self.mux {
            return false;
        }
        self.wait_while = (next == Mux::Waiting).then_some(now + AGGREGATE_WAIT_TIME);
        self.need_to_transmit |= next != Mux::Waiting;
        self.mux = next;
        self.set_actor(PortState::SYNCHRONIZATION, next >= Mux::Attached);
        self.set_actor(PortState::COLLECTING, next >= Mux::Collecting);
        self.set_actor(PortState::DISTRIBUTING, next == Mux::Distributing);
        true
    }

    // Churn detection.

    pub(super) fn watch(&mut self, now: Time) {
        let up = self.enabled();
        let synced = |info: &PortInfo| !up || info.state.has(PortState::SYNCHRONIZATION);
        self.counters.actor_churn += u64::from(self.actor_churn.step(synced(&self.actor), now));
        self.counters.partner_churn += u64::from(self.partner_churn.step(synced(&self.partner), now));
    }

    // The transmit machine (802.1AX-2014 clause 6.4.16).

    /// When this port has something to say.
    pub(super) fn speak_at(&self) -> Option<Time> {
        if !self.markers.is_empty() {
            return Some(Time::ZERO);
        }
        (self.need_to_transmit && self.periodic.is_some())
            .then(|| self.sent[0].map_or(Time::ZERO, |at| at + FAST_PERIODIC_TIME))
    }

    pub(super) fn poll_pdu(&mut self, now: Time) -> Option<SlowPdu> {
        if let Some(marker) = self.markers.pop_front() {
            self.counters.markers_out += 1;
            return Some(answer(&marker));
        }
        if self.speak_at()? > now {
            return None;
        }
        self.need_to_transmit = false;
        self.sent.rotate_left(1);
        self.sent[MAX_PDUS - 1] = Some(now);
        self.counters.pdus_out += 1;
        Some(SlowPdu::Lacp(LacpPdu { actor: self.actor, partner: self.partner, max_delay: 0 }))
    }

    /// When time is to be told: for what can be sent at once it need not be.
    pub(super) fn deadline(&self, now: Time) -> Time {
        let churn = [self.actor_churn, self.partner_churn].map(|churn| match churn {
            Churn::Monitor(at) => Some(at),
            Churn::None | Churn::Detected => None,
        });
        let periodic = self.periodic.map(|(_, at)| at);
        let speak_at = self.speak_at().filter(|at| *at > now);
        let timers = [self.current_while, self.wait_while, periodic, speak_at, churn[0], churn[1]];
        timers.into_iter().flatten().fold(Time::MAX, Time::min)
    }

    pub(super) fn on_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    fn set_actor(&mut self, bits: PortState, set: bool) {
        self.actor.state = self.actor.state.with(bits, set);
    }

    fn set_partner(&mut self, bits: PortState, set: bool) {
        self.partner.state = self.partner.state.with(bits, set);
    }
}

impl Churn {
    /// Returns whether it has just become churn.
    fn step(&mut self, in_sync: bool, now: Time) -> bool {
        match *self {
            _ if in_sync => *self = Self::None,
            Self::None => *self = Self::Monitor(now + CHURN_DETECTION_TIME),
            Self::Monitor(at) if at <= now => {
                *self = Self::Detected;
                return true;
            }
            Self::Monitor(_) | Self::Detected => {}
        }
        false
    }
}

/// Whether two tell of the same port, and agree on the given bits of it.
fn same_port(a: &PortInfo, b: &PortInfo, bits: PortState) -> bool {
    let name = |info: &PortInfo| PortInfo { state: PortState(info.state.0 & bits.0), ..*info };
    name(a) == name(b)
}

#[cfg(test)]
impl Port {
    /// Makes it a link that cannot be aggregated.
    pub(super) fn alone(&mut self) {
        self.set_actor(PortState::AGGREGATION, false);
    }
}
