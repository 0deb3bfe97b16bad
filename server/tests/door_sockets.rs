//! The websockets: joined by number, closed by logout and by a restart.

#[path = "support/server.rs"]
mod support;

use futures_util::{SinkExt, StreamExt};
use opkit_domain::screen::{TerminalDown, TerminalUp};
use support::{PATIENCE, Server, output_of, wait_until};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

type Stream = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(server: &Server, path: &str, cookie: &str, origin: &str) -> Result<Stream, Error> {
    let mut request = format!("ws://{}{path}", server.address).into_client_request()?;
    request.headers_mut().insert("origin", origin.parse().expect("a header"));
    request.headers_mut().insert("cookie", cookie.parse().expect("a header"));
    Ok(tokio_tungstenite::connect_async(request).await?.0)
}

async fn next(stream: &mut Stream) -> Message {
    loop {
        let message = timeout(PATIENCE, stream.next()).await.expect("a frame in time");
        let message = message.expect("the socket is open").expect("a good frame");
        if !message.is_ping() && !message.is_pong() {
            return message;
        }
    }
}

async fn close_code(stream: &mut Stream) -> u16 {
    loop {
        if let Message::Close(frame) = next(stream).await {
            return frame.expect("a reason").code.into();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_says_hello_and_logout_closes_it() {
    let server = Server::with_owner();
    let cookie = server.cookie();
    let mut mine = connect(&server, "/ws/board?after=0", &cookie, &server.origin()).await.unwrap();
    let hello: serde_json::Value = serde_json::from_str(next(&mut mine).await.to_text().unwrap()).unwrap();
    assert_eq!(hello["t"], "hello");
    assert!(hello["seq"].is_i64() && hello["build"].is_string());

    let other = server.cookie();
    let mut others = connect(&server, "/ws/board", &other, &server.origin()).await.unwrap();
    next(&mut others).await;
    server.request("POST", "/logout").header("cookie", &cookie).header("origin", &server.origin()).send();
    assert_eq!(close_code(&mut mine).await, 4001);

    let (code, _) = tokio::task::spawn_blocking(|| server.terminate()).await.unwrap();
    assert_eq!(close_code(&mut others).await, 1012, "the other login goes on until the server leaves");
    assert_eq!(code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_want_a_login_and_their_own_origin() {
    let server = Server::with_owner();
    let cookie = server.cookie();
    let status = |result: Result<Stream, Error>| match result {
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
        Ok(_) => 101,
    };
    let evil = connect(&server, "/ws/board", &cookie, "http://evil.example").await;
    assert_eq!(status(evil), 403);
    let nobody = connect(&server, "/ws/board", "opkit=x", &server.origin()).await;
    assert_eq!(status(nobody), 401);
    let session = "/ws/terminal/5c1e7a2e-0000-4000-8000-000000000000";
    assert_eq!(status(connect(&server, session, &cookie, &server.origin()).await), 404);
    let unknown = connect(&server, "/ws/board?since=1", &cookie, &server.origin()).await;
    assert_eq!(status(unknown), 400);
}

/// Starts a session that writes much, and gives its id.
fn flooding(server: &Server, folder: &std::path::Path) -> String {
    let path = support::repository(folder);
    let data = server.data.path();
    output_of(data, &["repos", "add", &path, "--name", "sample"], "");
    let add =
        ["objective", "add", "--repo", "sample", "--type", "bug", "--title", "Flood", "--criterion", "x"];
    output_of(data, &[&add[..], &["--agent", "demo", "--script", "floods"]].concat(), "");
    let token = server.token();
    wait_until("a session to run", || {
        let live = server.request("GET", "/api/v1/sessions?state=live").bearer(&token).send().json();
        let id = live["items"][0]["id"].as_str().filter(|_| live["items"][0]["state"] == "running");
        id.map(str::to_owned).ok_or_else(|| live.to_string())
    })
}

/// Reads on, saying what it has, until it has everything up to `wanted`.
async fn follow(stream: &mut Stream, wanted: u64) -> u64 {
    let mut have = 0;
    while have < wanted {
        if let Message::Binary(bytes) = next(stream).await
            && let TerminalDown::Lines { end, .. } = postcard::from_bytes(&bytes).expect("a frame")
        {
            have = end;
            let up = postcard::to_stdvec(&TerminalUp::Ack { end }).expect("a message");
            stream.send(Message::Binary(up.into())).await.expect("it is taken");
        }
    }
    have
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_reads_nothing_holds_up_nobody() {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let session = flooding(&server, folder.path());
    let cookie = server.cookie();
    let path = format!("/ws/terminal/{session}?from=0");
    let mut stalled = connect(&server, &path, &cookie, &server.origin()).await.unwrap();
    let mut reader = connect(&server, &path, &cookie, &server.origin()).await.unwrap();
    let far = timeout(PATIENCE, follow(&mut reader, 1_000_000)).await.expect("the reader goes on");
    // The one that slept reads on from where it was and soon is as far: nothing was queued for it.
    let mut frames = 0;
    timeout(PATIENCE, async {
        while follow(&mut stalled, 1).await < far {
            frames += 1;
        }
    })
    .await
    .expect("the sleeper catches up");
    assert!(frames < 200, "{frames} frames to catch up");
    let token = server.token();
    server.cli(&["stop-all"]);
    wait_until("the session to end", || {
        let live = server.request("GET", "/api/v1/sessions?state=live").bearer(&token).send().json();
        if live["items"] == serde_json::json!([]) { Ok(()) } else { Err(live.to_string()) }
    });
}
