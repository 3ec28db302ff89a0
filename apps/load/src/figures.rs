//! What one silo counted in a run: plain values that can cross threads and be
//! added up.

mod turns;

use crate::checks::{WrongAnswer, keep_sample};
use crate::grpc::GrpcStatuses;
use crate::recorder::Recorder;
use crate::samples::{CLASSES, Class, Samples};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub use turns::Turns;

/// The counts and samples of one silo, or of several merged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// How the measured window ended.
    pub ended: Ended,
    /// Time from the first turn until all connections were open.
    pub ramp: Duration,
    /// Time from there to the start of the measured window.
    pub warm_up: Duration,
    /// Length of the measured window. Merged: the longest.
    pub window: Duration,
    /// Requests answered in the window ÷ its length; in an open loop with [`Scheduled::under_way`], or
    /// for a number of requests ÷ the time in which they were to be sent. Merged: the sum.
    pub rate: f64,
    /// Request due (in a closed loop: sent) to response complete; timeouts
    /// with the time they took: the samples that count as latencies ([`Samples::latency`]).
    #[serde(skip)]
    pub latency: Recorder,
    /// The same by class, and the times that explain it.
    pub samples: Samples,
    /// Requests in progress over the window's time: sent, and not ended.
    pub in_progress: Integral,
    /// What the schedule of an open loop asked for; zero in a closed one.
    pub schedule: Scheduled,
    /// Connect started to connection established.
    pub connect: Recorder,
    /// Connection established to connection secured.
    pub handshake: Recorder,
    /// What handshakes agreed on, and how many did; of the whole run.
    pub agreed: Vec<(Agreed, u64)>,
    /// Why the first connection that could not be used could not: its handshake failed, or its
    /// server speaks another protocol.
    pub connection_failure: Option<String>,
    /// In the measured window.
    pub counts: Counts,
    /// Before it: ramp and warm-up.
    pub before: Counts,
    /// Of that, the opening of connections.
    pub ramp_phase: Phase,
    /// Of that, the warm-up.
    pub warm_up_phase: Phase,
    /// Intervals that grew together, as the collector was too slow.
    pub intervals_merged: u64,
    /// Connections open at the end of the window.
    pub open: u64,
    /// The most connections open at once.
    pub most_open: u64,
    /// Requests under way at the end of the window.
    pub in_flight: u64,
    /// Time since the oldest of them was sent.
    pub oldest_in_flight: Duration,
    /// The turns of the silo, as far as the application sees them. Merged:
    /// those of the busiest silo.
    pub turns: Turns,
    /// Silos merged into this.
    pub silos: u32,
    /// The name that the server gives itself, where [`crate::Plan::parts`] asks
    /// for it: printable ASCII, at most 64 bytes.
    pub server: Option<String>,
    /// The figures of requests apart, in the measured window, where
    /// [`crate::Plan::url_rows`] asks for them: as many as have a row of their own, and
    /// one for all others. Not among what is written for others: a part of a load on many machines has
    /// none.
    #[serde(skip)]
    pub urls: Vec<UrlFigures>,
    /// Some of the answers that were not as they were to be; of the whole run.
    pub wrong_answers: Vec<WrongAnswer>,
}

impl Figures {
    /// Adds another silo's figures.
    pub fn merge(&mut self, other: &Self) {
        if other.silos == 0 {
            return;
        }
        if self.silos == 0 {
            *self = other.clone();
            return;
        }
        self.ended = self.ended.max(other.ended);
        self.ramp = self.ramp.max(other.ramp);
        self.warm_up = self.warm_up.max(other.warm_up);
        self.window = self.window.max(other.window);
        self.rate += other.rate;
        self.latency.merge(&other.latency);
        self.samples.merge(&other.samples);
        self.in_progress.add(&other.in_progress);
        self.schedule.merge(&other.schedule);
        self.ramp_phase.merge(&other.ramp_phase);
        self.warm_up_phase.merge(&other.warm_up_phase);
        self.intervals_merged += other.intervals_merged;
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        for (agreed, count) in &other.agreed {
            count_agreed(&mut self.agreed, agreed, *count);
        }
        if self.connection_failure.is_none() {
            self.connection_failure.clone_from(&other.connection_failure);
        }
        self.counts.add(&other.counts);
        self.before.add(&other.before);
        self.open += other.open;
        self.most_open += other.most_open;
        self.in_flight += other.in_flight;
        self.oldest_in_flight = self.oldest_in_flight.max(other.oldest_in_flight);
        self.turns.merge(&other.turns);
        self.silos += other.silos;
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
        self.urls.resize_with(self.urls.len().max(other.urls.len()), UrlFigures::default);
        for (mine, theirs) in self.urls.iter_mut().zip(&other.urls) {
            mine.merge(theirs);
        }
        for sample in &other.wrong_answers {
            keep_sample(&mut self.wrong_answers, sample.wrong, || sample.clone());
        }
    }
}

/// The figures of one request of several, or of all that have no row of their own.
#[derive(Clone, Debug, Default)]
pub struct UrlFigures {
    /// Requests that ended, by what became of them.
    pub classes: [u64; CLASSES],
    /// Answers that were not as they were to be.
    pub wrong: u64,
    /// Bytes of content of all answers.
    pub body_bytes: u64,
    /// As [`Figures::latency`].
    pub latency: Recorder,
}

impl UrlFigures {
    /// Answers, whatever their status.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.classes.iter().take(Class::Failed as usize).sum()
    }

    pub(crate) fn clear(&mut self) {
        (self.classes, self.wrong, self.body_bytes) = ([0; CLASSES], 0, 0);
        self.latency.clear();
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
        self.wrong += other.wrong;
        self.body_bytes += other.body_bytes;
        self.latency.merge(&other.latency);
    }
}

/// What a handshake of TLS agreed on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Agreed {
    /// The version of TLS: `TLSv1.2` or `TLSv1.3`.
    pub version: Cow<'static, str>,
    /// The cipher suite, by OpenSSL's name.
    pub suite: Cow<'static, str>,
    /// The protocol above, if the server chose one (RFC 7301).
    pub protocol: Option<String>,
}

/// Counts handshakes. What is agreed on was offered: few kinds.
pub(crate) fn count_agreed(all: &mut Vec<(Agreed, u64)>, agreed: &Agreed, count: u64) {
    match all.iter_mut().find(|(known, _)| known == agreed) {
        Some((_, known)) => *known += count,
        None => all.push((agreed.clone(), count)),
    }
}

/// What happened in a phase before the measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its length. Merged: the longest.
    pub time: Duration,
    /// What was counted.
    pub counts: Counts,
    /// As [`Figures::latency`].
    pub latency: Recorder,
}

impl Phase {
    fn merge(&mut self, other: &Self) {
        self.time = self.time.max(other.time);
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
    }
}

/// The number of requests in progress, integrated over time: measured by
/// itself, from a count and the clock, without any latency. By Little's law
/// it is the sum of the latencies, where both are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integral {
    /// Σ requests in progress × nanoseconds.
    pub request_ns: u128,
    /// Of requests in progress at the start, the time they had been before:
    /// part of their latencies, not of the integral.
    pub before_ns: u128,
    /// Of requests in progress at the end, the time they had been: part of the
    /// integral and of the time before, not of any latency.
    pub after_ns: u128,
    /// Of requests that were taken back as they were not processed, the time they had been:
    /// likewise.
    pub taken_back_ns: u128,
}

impl Integral {
    /// Adds one of another silo.
    pub fn add(&mut self, other: &Self) {
        self.request_ns += other.request_ns;
        self.before_ns += other.before_ns;
        self.after_ns += other.after_ns;
        self.taken_back_ns += other.taken_back_ns;
    }
}

/// What the schedule of an open loop asked for in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// Requests that came due; with [`crate::Stop::Requests`], until the last
    /// of them was sent.
    pub due: u64,
    /// Requests that were due when the window opened, and not sent.
    pub unsent_before: u64,
    /// Requests that were due when it ended, and not sent.
    pub unsent: u64,
    /// Requests that were sent in time and under way at its end, as many more than at its beginning
    /// as are under way on average: they count as if they were answered.
    pub under_way: u64,
    /// Time since the oldest of them was due.
    pub oldest_unsent: Duration,
}

impl Scheduled {
    fn merge(&mut self, other: &Self) {
        self.due += other.due;
        self.unsent_before += other.unsent_before;
        self.unsent += other.unsent;
        self.under_way += other.under_way;
        self.oldest_unsent = self.oldest_unsent.max(other.oldest_unsent);
    }
}

/// How the measured window ended. In order of what a merge keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It reached its time, or its number of requests.
    #[default]
    AsPlanned,
    /// The number of requests was not reached in the time given to it.
    OutOfTime,
    /// The run was asked to stop before.
    Interrupted,
    /// No connection could be secured ([`Figures::connection_failure`]).
    Unsecured,
    /// The server does not speak HTTP/2; likewise.
    NotHttp2,
}

macro_rules! counts {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Adds `other`, field by field.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// What was counted since `earlier`, field by field.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }

            /// Each field.
            pub(crate) fn all(&self) -> impl Iterator<Item = u64> + use<> {
                [$(self.$field),*].into_iter()
            }

            /// The sum of all fields.
            #[must_use]
            pub fn total(&self) -> u64 {
                0 $(+ self.$field)*
            }
        }
    };
}

/// Everything that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Requests, responses and bytes.
    pub traffic: Traffic,
    /// Responses by status class.
    pub statuses: Statuses,
    /// Calls by their status, where they are gRPC's.
    pub grpc: GrpcStatuses,
    /// What went wrong.
    pub errors: Errors,
    /// Connections.
    pub connections: Connections,
    /// Redirects, where they are followed.
    pub redirects: Redirects,
    /// Cookies, where they are kept.
    pub cookies: Cookies,
}

impl Counts {
    /// Adds `other`, field by field.
    pub fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        self.statuses.add(&other.statuses);
        self.grpc.add(&other.grpc);
        self.errors.add(&other.errors);
        self.connections.add(&other.connections);
        self.redirects.add(&other.redirects);
        self.cookies.add(&other.cookies);
    }

    /// What was counted since `earlier`, field by field.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            traffic: self.traffic.since(&earlier.traffic),
            statuses: self.statuses.since(&earlier.statuses),
            grpc: self.grpc.since(&earlier.grpc),
            errors: self.errors.since(&earlier.errors),
            connections: self.connections.since(&earlier.connections),
            redirects: self.redirects.since(&earlier.redirects),
            cookies: self.cookies.since(&earlier.cookies),
        }
    }
}

counts! {
    /// Requests, responses and bytes, HTTP's own: without TCP and below.
    Traffic {
        /// Requests handed to the data path.
        sent,
        /// Complete responses, whatever their status.
        responses,
        /// Bytes of all requests.
        sent_bytes,
        /// Bytes of all responses, heads included.
        received_bytes,
        /// Bytes of content.
        body_bytes,
        /// Of the requests sent, those that the server said it has not processed when it sent GOAWAY
        /// (RFC 9113 section 6.8). They were taken back to be sent on another connection
        /// (section 8.7), and are no failures. So are those that it refused as more than it takes,
        /// where it said how many that is after they were sent.
        unprocessed,
        /// In an open loop, requests that waited for a connection in place of one that was told to go.
        delayed_by_go_away,
        /// Of the responses, those that were not as they were to be; each once, however much is
        /// wrong with it.
        wrong,
        /// Of those, the ones of 2xx; of gRPC calls, those that are OK.
        wrong_success,
    }
}

counts! {
    /// Responses by status class (RFC 9110 §15). gRPC calls are of the class of the status of HTTP that
    /// google/rpc/code.proto has for theirs, whatever HTTP says.
    Statuses {
        /// 2xx.
        success,
        /// 3xx.
        redirection,
        /// 4xx.
        client_error,
        /// 5xx.
        server_error,
        /// None of these.
        other,
        /// Of 4xx, those with which a request was refused that came too early (425, RFC 8470).
        too_early,
    }
}

counts! {
    /// What went wrong, each occurrence in one field.
    Errors {
        /// Connects answered with RST.
        refused,
        /// Connects not answered in time.
        connect_timeouts,
        /// Connects that the network said lead nowhere.
        connect_unreachable,
        /// Connects that ended otherwise before being established.
        connect_failed,
        /// Handshakes of TLS not over in time, connecting included.
        handshake_timeouts,
        /// Handshakes of TLS that failed, or whose connection ended.
        handshake_failed,
        /// Handshakes with servers that are not trusted, or not who they were to be.
        untrusted,
        /// Requests not answered in time, and those behind them on the same
        /// connection.
        timeouts,
        /// Requests lost to a reset by the peer.
        reset,
        /// Requests whose connection the peer closed before any response.
        unanswered,
        /// Requests whose connection the peer closed within the response.
        truncated,
        /// Requests lost because TCP gave up: retransmissions unanswered.
        tcp_timed_out,
        /// Requests lost because the network said the peer is unreachable.
        unreachable,
        /// Requests lost to a response that is not HTTP/1.1, that does not
        /// frame safely, or that has more bytes than were asked for.
        malformed,
        /// Requests lost because the data path ended the connection.
        aborted,
        /// Over HTTP/2, requests whose stream the server reset, for another reason than the next.
        reset_streams,
        /// Those whose stream the server refused (REFUSED_STREAM): it has not looked at them.
        refused_streams,
        /// Requests lost on connections whose server does not speak HTTP/2.
        misspoken,
        /// gRPC calls that came to their deadline: whether we ended them, or the server (CANCEL).
        deadlines,
        /// Bytes from the peer on a connection without a request.
        unasked,
        /// Responses of another length than expected. They count as
        /// responses too.
        wrong_length,
        /// Responses of another status than expected. They count as
        /// responses too.
        wrong_status,
        /// Responses without a field that was expected, or with another value. They
        /// count as responses too, as those that follow.
        wrong_header,
        /// Responses whose content does not hold a text that was expected.
        wrong_text,
        /// Responses whose content does not match.
        wrong_match,
        /// Responses whose content has another hash.
        wrong_hash,
        /// Responses that could not be judged: their content is longer than is held
        /// for it, or the expression went astray in it.
        not_judged,
        /// gRPC answers whose status is OK and whose content is not one whole message.
        wrong_message,
        /// Those whose message is whole and said to be compressed, without a `grpc-encoding`, or whose
        /// flag is neither 0 nor 1.
        wrong_flag,
        /// Connections that the peer should have closed and did not in time.
        unclosed,
    }
}

counts! {
    /// Connections, and what held back new ones.
    Connections {
        /// Connects started.
        attempted,
        /// Connections established, and secured where the plan says so.
        established,
        /// Of them, those whose handshake went on with an earlier session.
        resumed,
        /// Of them, those whose server took the first request before the handshake was over.
        early,
        /// Of them, those whose server did not take it, so that it was sent again.
        early_refused,
        /// Connections that ended, for whatever reason, once established.
        closed,
        /// Connects in place of a connection that was closed or lost, in a
        /// keep-alive run.
        reconnects,
        /// Over HTTP/2, connections on which a server said that it takes no further requests
        /// (GOAWAY), however often.
        go_aways,
        /// Times that connecting paused because no local port was free.
        no_port,
        /// Times that connecting paused because the data path was full.
        full,
        /// Times that connecting paused because no route led to the target.
        no_route,
    }
}

counts! {
    /// Redirects, of requests that follow them. What is not followed stands as the
    /// request's answer.
    Redirects {
        /// Followed.
        followed,
        /// Not followed: they lead to another server.
        elsewhere,
        /// Not followed: the request had followed as many as it may.
        too_many,
        /// Not followed: the server closed the connection behind them.
        closed,
        /// Not followed: they do not say where to.
        unusable,
    }
}

counts! {
    /// Cookies that servers set.
    Cookies {
        /// Kept, or put in another's place.
        stored,
        /// Taken back.
        ended,
        /// Not taken: no cookie, for another host, too large.
        refused,
        /// Of those kept, those for which others had to go.
        displaced,
    }
}

impl Errors {
    /// Times that a response was not as it was to be.
    #[must_use]
    pub fn wrong_answers(&self) -> u64 {
        self.wrong_length
            + self.wrong_status
            + self.wrong_header
            + self.wrong_text
            + self.wrong_match
            + self.wrong_hash
            + self.not_judged
            + self.wrong_message
            + self.wrong_flag
    }

    /// Requests that were sent and got no proper response:
    /// requests sent = responses + failed + taken back ([`Traffic::unprocessed`]) + under way.
    #[must_use]
    pub fn failed_requests(&self) -> u64 {
        self.timeouts
            + self.reset
            + self.unanswered
            + self.truncated
            + self.tcp_timed_out
            + self.unreachable
            + self.malformed
            + self.aborted
            + self.reset_streams
            + self.refused_streams
            + self.misspoken
            + self.deadlines
    }

    /// Connects that did not lead to a connection.
    #[must_use]
    pub fn failed_connects(&self) -> u64 {
        self.refused
            + self.connect_timeouts
            + self.connect_unreachable
            + self.connect_failed
            + self.handshake_timeouts
            + self.handshake_failed
            + self.untrusted
    }
}
