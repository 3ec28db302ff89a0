//! `nearside packet lab`, as typed.

use super::percent;
use clap::{Args, ValueHint};
use host::values::nonzero_duration;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Device, DevicesPlan};

#[derive(Args)]
pub(in crate::args::flags) struct LabArgs {
    /// Devices: wire (none), bridge, route, xdp, testpmd, forward, memif-wire, memif-testpmd, memif-forward; with
    /// commas [default: all]
    #[arg(long, value_name = "DEVICE,…", value_delimiter = ',', value_parser = device)]
    dut: Vec<Device>,

    /// Bytes of frames, with the frame check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    size: u16,

    /// Send for this long in each trial of a probe, a tenth of it in those of a search
    #[arg(long, short, value_name = "TIME", default_value = "5s", value_parser = nonzero_duration)]
    duration: Duration,

    /// The most trials of the search for NDR and PDR
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    trials: u16,

    /// A trial of which the tester sent more than this share late, or not at all, is repeated, and then INVALID
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    late_limit: f64,

    /// Pin the tester to this core
    #[arg(long, value_name = "N")]
    core: Option<u16>,

    /// Pin a device that is a process to this core
    #[arg(long, value_name = "N")]
    device_core: Option<u16>,

    /// Keep the results in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

fn device(text: &str) -> Result<Device, String> {
    let names = Device::ALL.map(Device::name).join(", ");
    let found = Device::ALL.into_iter().find(|device| device.name() == text);
    found.ok_or_else(|| format!("there is no device {text}: {names} are"))
}

impl LabArgs {
    pub(super) fn plan(self) -> Result<DevicesPlan, String> {
        let devices = if self.dut.is_empty() { Device::ALL.to_vec() } else { self.dut };
        Ok(DevicesPlan {
            devices,
            size: self.size,
            duration: self.duration,
            trials: self.trials,
            late_limit: self.late_limit,
            core: self.core,
            device_core: self.device_core,
            out: self.out,
            html: self.html,
            json: self.json,
        })
    }
}
