//! What `nearside load` prints and writes, as typed.

use clap::{Args, ValueHint};
use generator::{Form, OutputPlan, ProgressKind};
use host::values;
use std::path::PathBuf;
use std::time::Duration;

/// What is printed, and what is written where.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(in crate::args) struct OutputArgs {
    /// Print the report in this form
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Text, conflicts_with = "json")]
    form: Form,

    /// Print results as JSON (as --as json)
    #[arg(long)]
    json: bool,

    /// Write one JSON object per interval to this file, as the run goes on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["find_max", "sweep"])]
    ndjson: Option<PathBuf>,

    /// Write a histogram of latency per interval to this file, as the run goes on (HdrHistogram's interval log, V2)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["find_max", "sweep"])]
    hdr_log: Option<PathBuf>,

    /// Write the latency distribution to this file, as HdrHistogram prints it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["find_max", "sweep"])]
    hgrm: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Draw its curves into this file, as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    svg: Option<PathBuf>,

    /// Fail with exit code 6 where the figures cannot be trusted
    #[arg(long, conflicts_with_all = ["find_max", "sweep"])]
    strict: bool,

    /// The length of an interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Show how the run goes on: live (the whole terminal), lines, or none;
    /// auto is live on a terminal, else lines
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProgressKind::Auto)]
    progress: ProgressKind,
}

/// Intervals shorter than this would be mostly bookkeeping.
fn interval(text: &str) -> Result<Duration, values::BadValue> {
    let time = values::duration(text)?;
    if (Duration::from_millis(10)..=Duration::from_secs(3_600)).contains(&time) {
        Ok(time)
    } else {
        Err(values::BadValue::new("an interval is from 10ms to 1h"))
    }
}

impl OutputArgs {
    /// Whether the report is in ab's form.
    pub(super) fn is_ab(&self) -> bool {
        self.form == Form::Ab && !self.json
    }

    /// An option that is about requests, which streams without end are none of.
    pub(super) fn of_requests(&self) -> Option<&'static str> {
        self.not_of_streams().or(self.strict.then_some("--strict"))
    }

    /// One that is about requests, and not about streams that are to have a rate.
    pub(super) fn not_of_streams(&self) -> Option<&'static str> {
        let files = [("--ndjson", &self.ndjson), ("--hdr-log", &self.hdr_log), ("--hgrm", &self.hgrm)];
        let file = files.into_iter().find(|(_, file)| file.is_some()).map(|(name, _)| name);
        let form = !matches!(self.form, Form::Text | Form::Json);
        let live = self.progress == ProgressKind::Live;
        file.or(form.then_some("--as")).or(live.then_some("--progress live"))
    }

    pub(super) fn plan(self) -> OutputPlan {
        OutputPlan {
            form: if self.json { Form::Json } else { self.form },
            ndjson: self.ndjson,
            hdr_log: self.hdr_log,
            hgrm: self.hgrm,
            svg: self.svg,
            html: self.html,
            interval: self.interval,
            progress: self.progress,
            strict: self.strict,
        }
    }
}
