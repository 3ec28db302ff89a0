use super::*;
use crate::config::Address;
use driver::Role;

fn config(role: Role) -> Config {
    Config { queues: 2, ..Config::new(Address::Abstract("x".into()), role) }
}

/// Runs both sides against each other; file descriptors are numbers.
fn converse(server: &Config, client: &Config) -> Result<Offer<u16>, End> {
    let mut ours = ServerHandshake::<u16>::new(server);
    let mut theirs = ClientHandshake::default();
    let mut to_client = ServerHandshake::<u16>::hello(server);
    loop {
        let (message, fd) = match theirs.on_message(client, to_client)? {
            ClientStep::MakeMemory(plan) => {
                let rings = (0..u32::from(plan.queues)).map(|q| (q * 4096, q * 4096 + 2048)).collect();
                let layout = Layout { size: 1 << 20, rings, log2_ring_size: plan.log2_ring_size };
                (theirs.offer(client, &layout), None)
            }
            ClientStep::Send(message, Attachment::None) => (message, None),
            ClientStep::Send(message, Attachment::Memory) => (message, Some(1000)),
            ClientStep::Send(message, Attachment::Event(Direction::ToServer, q)) => (message, Some(q)),
            ClientStep::Send(message, Attachment::Event(Direction::ToClient, q)) => (message, Some(100 + q)),
            ClientStep::Up => panic!("up without CONNECTED"),
        };
        match ours.on_message(server, message, fd)? {
            ServerStep::Answer(answer) => to_client = answer,
            ServerStep::Connect(offer) => {
                let up = theirs.on_message(client, Message::Connected { name: String::new() })?;
                assert_eq!(up, ClientStep::Up);
                return Ok(offer);
            }
        }
    }
}

#[test]
fn both_sides_agree() {
    let offer = converse(&config(Role::Server), &config(Role::Client)).expect("agreed");
    assert_eq!(offer.regions, [(1000, 1 << 20)]);
    let seen: Vec<_> = offer.queues.iter().map(|(rx, tx)| (rx.event, rx.offset, tx.event, tx.offset)).collect();
    assert_eq!(seen, [(0, 0, 100, 2048), (1, 4096, 101, 6144)]);
    assert_eq!(offer.queues[0].0.log2_size, 8);
}

#[test]
fn the_fewer_queues_count() {
    let server = Config { queues: 1, ..config(Role::Server) };
    assert_eq!(converse(&server, &config(Role::Client)).expect("agreed").queues.len(), 1);
    let client = Config { queues: 1, ..config(Role::Client) };
    assert_eq!(converse(&config(Role::Server), &client).expect("agreed").queues.len(), 1);
}

#[test]
fn the_secret_and_the_id_open_the_door() {
    let server = Config { secret: Some("open".into()), ..config(Role::Server) };
    for (secret, good) in [(Some("open"), true), (Some("opem"), false), (Some("ope"), false), (None, false)] {
        let client = Config { secret: secret.map(String::from), ..config(Role::Client) };
        assert_eq!(converse(&server, &client).is_ok(), good, "{secret:?}");
    }
    let client = Config { id: 3, ..config(Role::Client) };
    let end = converse(&config(Role::Server), &client).err();
    assert_eq!(end, Some(End::refused("no interface 3 on this socket, there is 0")));
}

#[test]
fn messages_out_of_turn_end_the_conversation() {
    let config = config(Role::Server);
    let region = Message::AddRegion { index: 0, size: 4096 };
    let mut server = ServerHandshake::<u16>::new(&config);
    assert!(server.on_message(&config, region.clone(), Some(1)).is_err(), "before INIT");
    let init = Message::Init { version: VERSION, id: 0, mode: 0, secret: String::new(), name: String::new() };
    let mut server = ServerHandshake::<u16>::new(&config);
    assert!(server.on_message(&config, init.clone(), None).is_ok());
    assert!(server.on_message(&config, region.clone(), None).is_err(), "without its descriptor");
    assert!(server.on_message(&config, region.clone(), Some(1)).is_ok());
    assert!(server.on_message(&config, region, Some(1)).is_err(), "index 0 twice");
    assert!(server.on_message(&config, init, None).is_err(), "INIT twice");
    let connect = Message::Connect { name: String::new() };
    assert!(server.on_message(&config, connect, None).is_err(), "without rings");
    let mut client = ClientHandshake::default();
    assert!(client.on_message(&config, Message::Ack).is_err(), "before HELLO");
    let early = Message::Connected { name: String::new() };
    assert!(client.on_message(&config, early).is_err(), "before HELLO");
    let bye = Message::Disconnect { code: 0, reason: "bye".into() };
    assert_eq!(client.on_message(&config, bye), Err(End::Said("bye".into())));
}
