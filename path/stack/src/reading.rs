//! What is read of a frame in one go, beside what its layers say, if somebody
//! watches (see [`crate::shadow`]).

use crate::counters::Counters;
use crate::egress::{Egress, Rehearsal, Seen, Watched};
use crate::flow::{Envelope, Flow};
use crate::ip::is_martian_v4;
use crate::shadow::{Drift, Way};
use crate::stack::Stack;
use app::Net;
use core::net::{IpAddr, SocketAddr};
use wire::Mac;
use wire::plain::{self, Plain};

impl Stack {
    /// Connections that wait for a timer and do not stand on the wheel for it,
    /// by our end and the peer's: none, after a turn.
    pub fn off_the_wheel(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.tcp.off_the_wheel().filter_map(|id| self.local(id).zip(self.peer(id)))
    }

    /// What is read of a frame in one go, and what its layers say.
    #[inline(never)]
    pub(crate) fn compare_parsed(&mut self, frame: &[u8], verified: bool, out: &mut impl Egress) {
        let Watched::By(shadow) = out.watched() else { return };
        let Some((seen, martian)) = self.read_in_one_go(frame, verified) else { return };
        let before = (*self.ip.counters(), *self.tcp.counters());
        let mut aside = Rehearsal::of_reading(self.ip.mtu());
        let arrival = self.on_frame_by_layers(frame, verified, &mut aside);
        let general = self.counters();
        self.ip.set_counters(before.0);
        self.tcp.set_counters(before.1);
        let mut short = Counters::of(&before.0, &before.1);
        short.martian += u64::from(martian);
        let mut what = Vec::new();
        if arrival.is_some() || short != general {
            what.push("the frame is dropped otherwise".into());
        }
        let seen = Some(seen).filter(|_| !martian);
        if seen != aside.seen {
            what.push(format!("{seen:?} / {:?}", aside.seen));
        }
        let own = |seen: &Seen| self.ip.addresses.get(seen.flow.local);
        let local = seen.and_then(|seen| Some(SocketAddr::new(own(&seen)?, seen.header.dst_port)));
        let remote = seen.map(|seen| SocketAddr::new(seen.envelope.src, seen.header.src_port));
        let way = Way::Parse;
        shadow.on_compared(way, (!what.is_empty()).then_some(Drift { way, local, remote, what }));
    }

    /// The segment that [`Stack::on_frame`] reads in one go, if it does, and
    /// whether its source is none.
    fn read_in_one_go(&self, frame: &[u8], verified: bool) -> Option<(Seen, bool)> {
        let own = self.ip.station();
        let plain = Plain::parse(frame, own, verified);
        let is_plain = plain.is_some();
        let (src, dst, header, payload) = match plain {
            Some(plain) => (plain.src, plain.dst, plain.tcp_header(), plain.payload),
            None => plain::parse_with_options(frame, own, verified)?,
        };
        let martian = is_martian_v4(src);
        if martian && !is_plain {
            return None;
        }
        let local = self.ip.addresses.index_v4(dst)?;
        let flow = Flow::v4(src, header.src_port, local, header.dst_port);
        let mac = Mac::sender_of(frame);
        let envelope = Envelope { src: IpAddr::V4(src), local, mac };
        Some((Seen::new(flow, envelope, header, payload), martian))
    }
}
