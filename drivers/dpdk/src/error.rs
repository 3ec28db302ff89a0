//! Why a port could not be opened.

use crate::remedy::Remedy;
use core::fmt;
use driver::BadConfig;

/// Why a DPDK link could not be opened. The message names what is missing and
/// what to run; trying again helps only after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DpdkError(Box<Details>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Details {
    device: Option<String>,
    step: Step,
    /// DPDK's reason.
    reason: Option<String>,
    /// What DPDK wrote meanwhile.
    said: Vec<String>,
    remedy: Option<Remedy>,
}

/// Where opening failed: at the first step already, or at one of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "libdpdk"), allow(dead_code, reason = "without DPDK nothing gets that far"))]
pub(crate) enum Step {
    /// The program was built without DPDK.
    #[cfg(not(feature = "libdpdk"))]
    NotBuiltIn,
    /// The first port brought other options of the process.
    OtherOptions,
    /// The environment did not start.
    Start,
    /// The machine has not what the device needs.
    Machine,
    /// The device's driver did not take it.
    Attach,
    /// The port did not do this.
    Port(String),
    /// No memory for packets.
    Memory,
}

/// Lines of DPDK's that a message shows.
const SHOWN_LINES: usize = 6;

impl DpdkError {
    pub(crate) fn of(step: Step) -> Self {
        Self(Box::new(Details { device: None, step, reason: None, said: Vec::new(), remedy: None }))
    }

    #[cfg(feature = "libdpdk")]
    pub(crate) fn said(step: Step, code: i32, said: Vec<String>) -> Self {
        let mut error = Self::of(step);
        error.0.reason = Some(crate::ffi::text(crate::ffi::near_reason(code)));
        error.0.said = said;
        error
    }

    #[cfg(feature = "libdpdk")]
    pub(crate) fn lacking(remedy: Remedy) -> Self {
        Self::of(Step::Machine).with_remedy(Some(remedy))
    }

    #[cfg(feature = "libdpdk")]
    pub(crate) fn with_remedy(mut self, remedy: Option<Remedy>) -> Self {
        self.0.remedy = self.0.remedy.or(remedy);
        self
    }

    pub(crate) fn on(mut self, device: impl fmt::Display) -> Self {
        self.0.device = Some(device.to_string());
        self
    }

    #[cfg(feature = "libdpdk")]
    pub(crate) fn is_memory(&self) -> bool {
        self.0.step == Step::Memory
    }

    /// For a port that gave no queue.
    #[cfg(feature = "libdpdk")]
    pub(crate) fn no_queue() -> Self {
        Self::of(Step::Port("give a queue".to_owned()))
    }

    /// What the machine lacks, where that is known to be the reason.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        self.0.remedy.as_ref()
    }
}

impl From<BadConfig> for DpdkError {
    fn from(why: BadConfig) -> Self {
        Self::of(Step::Port(why.to_string()))
    }
}

impl fmt::Display for DpdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { device, step, reason, said, remedy } = &*self.0;
        match device {
            Some(device) => write!(f, "cannot open dpdk:{device}: ")?,
            None => f.write_str("dpdk: ")?,
        }
        match step {
            #[cfg(not(feature = "libdpdk"))]
            Step::NotBuiltIn => f.write_str(
                "this program was built without DPDK\n  run: apt-get install libdpdk-dev dpdk-dev pkg-config && make \
                 build DPDK=1",
            )?,
            Step::OtherOptions => f.write_str(
                "DPDK runs already with other options for the whole process: give huge, memory, file-prefix and eal \
                 with the first port only, or with each the same",
            )?,
            Step::Start => f.write_str("DPDK does not start")?,
            Step::Machine => {}
            Step::Attach => f.write_str("its driver does not take the device")?,
            Step::Port(what) => write!(f, "could not {what}")?,
            Step::Memory => f.write_str("no memory for packets")?,
        }
        if let Some(reason) = reason {
            write!(f, ": {reason}")?;
        }
        for line in said.iter().rev().take(SHOWN_LINES).rev() {
            write!(f, "\n  DPDK: {line}")?;
        }
        match (remedy, step) {
            (Some(remedy), Step::Machine) => write!(f, "{remedy}"),
            (Some(remedy), _) => write!(f, "\n  {remedy}"),
            (None, _) => Ok(()),
        }
    }
}

impl core::error::Error for DpdkError {}
