//! `nearside packet lab`, as typed.

use clap::{Args, ValueHint};
use host::values::nonzero_duration;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Device, DevicesPlan};

#[derive(Args)]
pub(in crate::args::flags) struct LabArgs {
    /// Devices: bridge, route, xdp, testpmd, forward; with commas [default: all]
    #[arg(long, value_name = "DEVICE,…", value_delimiter = ',', value_parser = device)]
    dut: Vec<Device>,

    /// Bytes of frames, with the frame check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    size: u16,

    /// Send for this long in each trial
    #[arg(long, short, value_name = "TIME", default_value = "5s", value_parser = nonzero_duration)]
    duration: Duration,

    /// Pin the tester to this core
    #[arg(long, value_name = "N")]
    core: Option<u16>,

    /// Pin a device that is a process to this core
    #[arg(long, value_name = "N")]
    device_core: Option<u16>,

    /// Keep the results in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

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
            core: self.core,
            device_core: self.device_core,
            out: self.out,
            json: self.json,
        })
    }
}
