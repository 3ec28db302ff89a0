//! The load generator: HTTP requests over many connections, in a closed or an
//! open loop, for either data path.
//!
//! A [`Plan`] says what to do; a [`Load`] does it, as the [`app::App`] of one
//! silo; its [`Figures`] are merged over silos and become a [`Report`], with
//! what speaks against it ([`Warning`]). While it runs, [`Live`] tells how far
//! it is and sets its rate, and [`Intervals`] take it to another thread in
//! pieces. [`Objective`]s are checked on a report; [`FindMax`] searches for
//! the highest rate that meets them.
//!
//! # The loop
//!
//! Closed: each connection sends its next request when the last response is
//! complete. So the rate is what the server can do with that many clients
//! waiting, and a stalled server is asked less: percentiles tell how long
//! requests took, not how long requests at a fixed rate would have waited.
//!
//! Open: requests are due by a [`Schedule`], whatever the server does. One
//! that is due while all connections are busy waits, and is timed from the
//! moment it was due: a stall is seen by all who would have come. The same
//! without that wait is kept beside it ([`Samples::service`]), as is the wait
//! alone ([`Samples::lag`]).
//!
//! # Whether the figures are right
//!
//! The generator counts requests in progress over time, and Little's law
//! compares that with rate × latency; it asks to be called every few
//! milliseconds, and notes how late it is. What is off becomes a warning, with
//! the figure that it spoils.
//!
//! # What a latency is
//!
//! From the turn in which the request was queued (in an open loop: from the
//! time that it was due) to the turn that received the last byte of its
//! response, both stamped with the turn's one time ([`app::Net::now`]), which
//! is taken at its start. The request leaves at the end of its turn, and the
//! response may wait in the ring for the turn before the one that takes it. So
//! a latency is never too short, and too long by at
//! most the length of two turns of the generator's own silo; these lengths are
//! in the report, and a warning where they matter. A connect's time is
//! measured likewise, from [`app::Net::connect`] to established.
//!
//! Resolution of a sample is 1/1024 of its value (three significant digits);
//! the shortest and the longest are exact.
#![forbid(unsafe_code)]

mod admitted;
mod bulk;
mod checks;
mod conn;
mod cookies;
mod feed;
mod figures;
mod find_max;
mod grpc;
mod heads;
mod interval;
mod live;
mod load;
mod location;
mod objective;
mod own;
mod pattern;
mod plan;
mod random;
mod recorder;
mod report;
mod samples;
mod schedule;
mod sieve;
mod streaming;
mod template;
mod urls;

pub use bulk::{
    Bulk, BulkInterval, BulkPlan, BulkRate, BulkReport, BulkSetup, BulkSpan, BulkStage, BulkWay, STREAMS_LIMIT,
    StreamState, Way,
};
pub use checks::{CHECKS_LIMIT, CONTENT_LIMIT, Check, Pattern, SAMPLES_LIMIT, Wrong, WrongAnswer};
pub use feed::{FEED_LIMIT, Feed, FeedError, FeedOrder};
pub use figures::{
    Agreed, Connections, Cookies, Counts, Ended, Errors, Figures, Integral, Phase, Redirects, Scheduled, Statuses,
    Traffic, Turns, UrlFigures,
};
pub use find_max::{FindMax, FindMaxConfig, Found, Point, Spoilt, Surroundings, Trial};
pub use grpc::{Grpc, GrpcStatus, GrpcStatuses};
pub use heads::{Heads, WRK_USERS_LIMIT, wrk_script};
pub use interval::{INTERVALS_LIMIT, Interval, Intervals, Taken};
pub use live::{Live, Progress, Stage};
pub use load::Load;
pub use objective::{Judged, Metric, OBJECTIVES_LIMIT, Objective, ObjectiveError, Relation};
pub use pattern::expand;
pub use plan::{
    CONCURRENT_LIMIT, CONNECTIONS_LIMIT, Expect, FOLLOW_LIMIT, Http2, PIPELINE_LIMIT, Plan, PlanError, REQUEST_LIMIT,
    REQUESTS_LIMIT, Request, Reuse, Stop, TIMEOUT_LIMIT, Weighted,
};
pub use recorder::{LONGEST, Recorder, SUB_BUCKETS};
pub use report::{
    AgreedReport, Busy, BusySource, ClassLatency, ClientCpu, Cpu, EarlyReport, Floor, Latency, LittlesLaw, Outside,
    PhaseReport, PortUse, Ports, Reason, Report, ScheduleReport, SecuredReport, Setup, Sibling, Spoils, Throughput,
    Trust, UrlReport, Verdict, Warning,
};
pub use samples::{CLASSES, Class, Samples};
pub use schedule::{Arrival, RATE_LIMIT, STEPS_LIMIT, Schedule, Shape, Spacing, Step};
pub use sieve::{Cause, Disturbance, Sieve, SieveConfig, Sifted, Wish};
pub use streaming::{
    CountedSeconds, Evenness, LeftOut, Off, PlayRate, PlayerPlan, Playing, SEGMENT, SecondFigures, StreamErrors,
    Streaming, StreamingFigures, StreamingLive, StreamingPlan, StreamingProgress, StreamingReport, StreamingSetup,
};
pub use template::{Script, Source, TemplateError};
pub use urls::{Requests, UrlsError, is_log, parse_list, parse_requests};
