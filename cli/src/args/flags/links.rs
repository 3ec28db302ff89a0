//! `nearside links`, as typed.

use crate::args::LinksPlan;
use clap::Args;

#[derive(Args)]
pub(in crate::args) struct LinksArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl LinksArgs {
    pub(super) fn plan(self) -> LinksPlan {
        LinksPlan { json: self.json }
    }
}
