//! `nearside numa`, as typed.

use clap::{Args, ValueHint};
use console::NumaPlan;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct NumaArgs {
    /// The statistics page to read [default: those of all running processes]
    #[arg(value_name = "PAGE", value_hint = ValueHint::FilePath, conflicts_with_all = ["topology", "record"])]
    page: Option<PathBuf>,

    /// Print JSON
    #[arg(long, conflicts_with = "record")]
    json: bool,

    /// Print the machine's domains, cores and network interfaces
    #[arg(long)]
    topology: bool,

    /// Write the topology to this file, as one page of HTML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "topology")]
    html: Option<PathBuf>,

    /// Print what sysfs says of these, to be read again with --root
    #[arg(long, conflicts_with = "topology")]
    record: bool,

    /// Look at another machine: a folder with its sys/, or what --record printed
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,
}

impl NumaArgs {
    pub(super) fn plan(self) -> Result<NumaPlan, String> {
        let Self { page, json, topology, html, record, root } = self;
        if root.is_some() && !topology && !record {
            return Err("--root goes with --topology or --record".to_owned());
        }
        Ok(NumaPlan { page, json, topology, html, record, root })
    }
}
