//! TAP as one driver of several.

use crate::Tap;
use crate::config::{Config, QUEUES_LIMIT};
use core::error::Error;
use driver::{BadConfig, Claim, Driver, Kernel, Kind, Open, Opened, Opening, Queue, Role};
use link::{Reopened, Reopener, Wanted};
use std::sync::Arc;

const HELP: &str = "tap is a device of the local kernel, made if it does not exist, and needs CAP_NET_ADMIN. \
     Options: addr=ADDRESS/PREFIX for the kernel's side, mtu=BYTES, offload=on|off (on), large=on|off (off), \
     ring=SLOTS.";

impl Driver for Config {
    fn kind(&self) -> &'static Kind {
        &Self::KIND
    }

    fn name(&self) -> String {
        format!("tap:{}", self.name)
    }

    fn most_queues(&self) -> u16 {
        QUEUES_LIMIT
    }

    fn kernel(&self) -> Kernel<'_> {
        Kernel::Opposite(&self.name)
    }

    fn without_offload(&mut self) -> Result<(), &'static str> {
        if self.large {
            return Err("large=on is an offload: it contradicts --offload off");
        }
        self.offload = false;
        Ok(())
    }

    fn open_for_another(&self, queues: u16, _: &Claim, wanted: Wanted) -> Result<Reopened, Box<dyn Error>> {
        Ok(Tap::open_for_another(&Self { queues, ..self.clone() }, wanted)?)
    }
}

impl Open for Config {
    const KIND: Kind = Kind::new("tap", "tap:NAME", "tap:NAME", HELP);

    type Queue = Tap;

    fn read(text: &str, _: Role) -> Result<Self, BadConfig> {
        text.parse()
    }

    fn open(&self, opening: Opening<'_>) -> Result<Opened<Tap>, Box<dyn Error>> {
        // Segments larger than a frame are the local kernel's offload, and no frames.
        let offload = self.offload && *opening.claim != Claim::Whole;
        Ok(Tap::open_queues(&Self { queues: opening.queues, offload, ..self.clone() })?.into())
    }
}

impl Queue for Tap {
    fn is_gone(&self) -> Option<bool> {
        Some(Self::is_gone(self))
    }

    fn set_reopener(&mut self, reopener: Arc<dyn Reopener>) {
        Self::set_reopener(self, reopener);
    }
}
