//! Handlers, as other protocols reach them: those that carry several exchanges on a connection.

use crate::answering::H1Replies;
use app::Net;
use connections::{Connections, ExchangeEvent, ToHandler};
use exchange::{Asked, Bodies, ExchangeId, Gone, Handler, Ready};

/// A handler that other protocols ask.
#[derive(Debug)]
pub struct Door<'a, H>(pub &'a mut H);

impl<H: Handler> ToHandler for Door<'_, H> {
    fn tell(
        &mut self,
        net: &mut dyn Net,
        connections: &mut Connections,
        id: ExchangeId,
        event: ExchangeEvent<'_>,
    ) -> usize {
        let replies = &mut H1Replies { net, connections, within: None, series: None };
        match event {
            ExchangeEvent::Request(request, body) => self.0.on_request(replies, id, request, body),
            ExchangeEvent::Body(bytes) => return self.0.on_body(replies, id, bytes),
            ExchangeEvent::BodyEnd(trailers) => self.0.on_body_end(replies, id, trailers),
            ExchangeEvent::BodyCut(why) => return usize::from(self.0.on_body_cut(replies, id, why)),
            ExchangeEvent::Room => self.0.on_room(replies, id),
            ExchangeEvent::Refused(refused) => return usize::from(self.0.on_refused(replies, id, refused)),
            ExchangeEvent::Fault(fault) => self.0.on_fault(replies, id, fault),
            ExchangeEvent::Late => return usize::from(self.0.on_late(replies, id)),
        }
        0
    }

    fn gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone) {
        self.0.on_gone(id, mark, why);
    }

    fn ready(&mut self, asked: &dyn Asked, second: u64) -> Option<&mut Ready> {
        self.0.ready_for(&asked, second)
    }

    fn takes_bodies(&self) -> bool {
        self.0.rules().intake.bodies != Bodies::Dropped
    }

    fn chooses_bodies(&self) -> bool {
        self.0.rules().intake.bodies == Bodies::Asked
    }
}
