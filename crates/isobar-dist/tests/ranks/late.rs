//! Messages that arrive late.

use isobar_core::backend::Meanwhile;
use isobar_core::prelude::*;
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, Message};

/// A rank whose messages are sent and received after the work that overlaps them: that work finds NaN in the destination, and must
/// not change the cells that are sent.
#[derive(Debug)]
pub(crate) struct Late(pub(crate) Threads);

impl Communicator for Late {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()> {
        // Bytes of NaN, in both precisions.
        messages.iter_mut().for_each(|message| message.receive.fill(0xff));
        let sent: Vec<Vec<u8>> = messages.iter().map(|message| message.send.to_vec()).collect();
        meanwhile();
        for (message, sent) in messages.iter().zip(&sent) {
            assert!(message.send == &sent[..], "what rank {} is sent has changed on its way", message.peer);
        }
        self.0.exchange(messages)
    }

    fn abort(&self, why: &str) {
        self.0.abort(why);
    }
}
