//! Sends back what comes, over the kernel's sockets.

use nearside::{App, ConnId, Kernel, Net};
use std::error::Error;
use std::sync::atomic::AtomicBool;

/// Sends back what comes.
struct Echo;

impl App for Echo {
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        net.send_bytes(id, data);
        data.len()
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn Error>> {
    let echo = Kernel::listen(&["127.0.0.1:7007".parse()?], Echo)?;
    echo.run(&STOP)?;
    Ok(())
}
