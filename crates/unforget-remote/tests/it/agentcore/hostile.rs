//! A memory that loses events, shows old lists, refuses its own tokens and mixes things up.

use unforget_remote::Patience;
use unforget_testkit::agentcore::RefusedPage;

use super::*;

/// A client whose time passes only by its own sleeps, and that gives up soon.
fn hasty(server: &FakeMemory, hands: &Hands) -> Packed<AgentCore> {
    let patience = Patience { attempts: 2, first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    client_at(server, Arc::new(hands.clone())).patient(patience)
}

/// Appends single lines and answers with the stream's ends, the empty one first.
async fn written(remote: &Packed<AgentCore>, stream: &Stream, texts: &[&str]) -> Vec<Frontier> {
    let mut ends = vec![Frontier::default()];
    for text in texts {
        let end = remote.append(stream, &ends[ends.len() - 1], &lines(&[text])).await.unwrap();
        ends.push(end);
    }
    ends
}

#[tokio::test]
async fn h1_a_lost_event_is_an_error_with_its_place() {
    let hands = Hands::new();
    for lost in 1..4_usize {
        let server = hands.server(Options::default());
        let stream = stream("gap");
        let ends = written(&hasty(&server, &hands), &stream, &["a", "b", "c", "d", "e"]).await;
        server.tamper(&server.events()[lost].event_id, |_| None);
        let fresh = hasty(&server, &hands);
        assert_eq!(fresh.frontier(&stream).await.unwrap(), ends[5], "the stream does not become shorter");
        for (line, end) in ends.iter().enumerate().take(5) {
            match fresh.read(&stream, line as u64).await {
                Ok(page) => assert!(line != lost && page.before == *end),
                Err(Error::Corrupt { reason, .. }) => {
                    assert!(line == lost && reason.contains(&format!("line {lost} is missing")), "{reason}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(fresh.list(&Prefix::tenant("tenant").unwrap(), None).await.unwrap().streams, [stream]);
    }
}

#[tokio::test]
async fn h1_a_refused_page_is_neither_the_end_of_a_list_nor_a_deletion() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let stream = stream("pages");
    let texts: Vec<String> = (0..103).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let ends = written(&hasty(&server, &hands), &stream, &texts).await;
    for refused in [RefusedPage::Invalid, RefusedPage::Missing] {
        server.trick(|tricks| tricks.refused_pages = Some(refused));
        let fresh = hasty(&server, &hands);
        assert_eq!(fresh.frontier(&stream).await.unwrap(), ends[103]);
        let answer = fresh.read(&stream, 0).await;
        assert!(matches!(&answer, Err(Error::Unavailable { .. })), "{answer:?}");
        server.trick(|tricks| tricks.refused_pages = None);
        assert_eq!(fresh.read(&stream, 0).await.unwrap().lines, lines(&["0"]));
    }
    server.trick(|tricks| tricks.is_endless = true);
    let answer = hasty(&server, &hands).read(&stream, 0).await;
    assert!(matches!(&answer, Err(Error::Corrupt { .. })), "{answer:?}");
}

#[tokio::test]
async fn h1_a_turn_behind_a_stale_list_is_not_acknowledged() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let stream = stream("stale");
    let ends = written(&hasty(&server, &hands), &stream, &["one", "two", "three"]).await;
    server.trick(|tricks| tricks.stale = 1);
    let other = hasty(&server, &hands);
    assert_eq!(other.frontier(&stream).await.unwrap(), ends[2], "it sees an old list");
    let began = hands.now();
    let answer = other.append(&stream, &ends[2], &lines(&["mine"])).await;
    assert!(matches!(&answer, Err(Error::Unavailable { reason, .. }) if reason.contains("stale")), "{answer:?}");
    assert!(hands.now() - began >= Duration::from_secs(1), "it looked again");
    server.trick(|tricks| tricks.stale = 0);
    let read = conformance::read_all(&hasty(&server, &hands), &stream, 0).await;
    assert_eq!(read, lines(&["one", "two", "three"]), "what was acknowledged counts");
    let answer = other.append(&stream, &ends[2], &lines(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == ends[3]), "{answer:?}");
}

#[tokio::test]
async fn h1_a_turn_of_a_slow_clock_behind_a_stale_list_replaces_nothing() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let stream = stream("slow");
    let slow = Hands::new();
    hands.advance(Duration::from_secs(3600));
    let ends = written(&hasty(&server, &hands), &stream, &["one", "two"]).await;
    server.trick(|tricks| (tricks.stale, tricks.stale_lists) = (1, Some(5)));
    let answer = hasty(&server, &slow).append(&stream, &ends[1], &lines(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == ends[2]), "{answer:?}");
    assert_eq!(conformance::read_all(&hasty(&server, &hands), &stream, 0).await, lines(&["one", "two"]));
    assert_eq!(server.events().len(), 2, "the second writer took its event back");
}

#[tokio::test]
async fn h1_a_list_that_catches_up_ends_in_an_acknowledgement() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let (stream, remote) = (stream("late"), hasty(&server, &hands));
    let ends = written(&remote, &stream, &["one"]).await;
    server.trick(|tricks| (tricks.stale, tricks.stale_lists) = (1, Some(3)));
    let end = remote.append(&stream, &ends[1], &lines(&["two"])).await.unwrap();
    assert_eq!(end.lines, 2);
    // For longer than one call looks: the second call asks for the same event.
    server.trick(|tricks| (tricks.stale, tricks.stale_lists) = (1, Some(7)));
    assert_eq!(remote.append(&stream, &end, &lines(&["three"])).await.unwrap().lines, 3);
    assert_eq!(server.events().len(), 3, "nothing was written twice");
}

#[tokio::test]
async fn h1_an_event_that_is_taken_and_not_kept_is_not_acknowledged() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let (stream, remote) = (stream("dropped"), hasty(&server, &hands));
    let ends = written(&remote, &stream, &["one"]).await;
    server.trick(|tricks| tricks.drops_new = true);
    assert!(remote.append(&stream, &ends[1], &lines(&["two"])).await.is_err());
    server.trick(|tricks| tricks.drops_new = false);
    assert_eq!(remote.append(&stream, &ends[1], &lines(&["two"])).await.unwrap().lines, 2, "its token is no obstacle");
    assert_eq!(conformance::read_all(&hasty(&server, &hands), &stream, 0).await, lines(&["one", "two"]));
}

#[tokio::test]
async fn s7_a_list_without_an_end_fills_no_memory() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let stream = stream("flood");
    written(&hasty(&server, &hands), &stream, &["one", "two"]).await;
    let newest = server.events().pop().unwrap();
    server.trick(|tricks| tricks.flood = Some((newest, 3000)));
    let answer = hasty(&server, &hands).read(&stream, 0).await;
    assert!(matches!(&answer, Err(Error::Corrupt { reason, .. }) if reason.contains("does not end")), "{answer:?}");
    assert!(server.count(Operation::ListEvents) < 3 * 50, "it stops where there are more segments than there can be");
}

#[tokio::test]
async fn s7_answers_are_bounded_in_bytes_values_and_parts() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let stream = stream("bomb");
    written(&hasty(&server, &hands), &stream, &["one"]).await;
    let refused = async |what: &str| {
        let answer = hasty(&server, &hands).read(&stream, 0).await;
        assert!(matches!(&answer, Err(Error::Corrupt { reason, .. }) if reason.contains(what)), "{answer:?}");
        server.trick(|tricks| *tricks = Default::default());
    };
    server.trick(|tricks| tricks.padding = 13 << 20);
    refused("bytes").await;
    let event = json!({"event": server.events()[0], "more": vec![0; 70_000]});
    server.trick(|tricks| tricks.answers = vec![(Operation::GetEvent, event.to_string())]);
    refused("values").await;
    // A thousand times the same part, of which only the first need be there.
    let parts = vec![format!("1#a {} 7000000", "0".repeat(64)); 1000].join("\n");
    let id = server.events()[0].event_id.clone();
    server.tamper(&id, |event| {
        use unforget_remote::agentcore::wire::Item;
        Some(unforget_remote::agentcore::wire::Event {
            payload: Some(vec![Item::Blob("parts".into()), Item::Blob(parts.into())]),
            ..event
        })
    });
    refused("more bytes than its lines can take").await;
}

#[tokio::test]
async fn h1_mixed_up_lists_change_no_history() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let foreign = stream("foreign");
    written(&hasty(&server, &hands), &foreign, &["theirs"]).await;
    let foreign = server.events().remove(0);
    let texts: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (number, name) in ["foreign", "relabelled", "twice", "reordered"].into_iter().enumerate() {
        let stream = stream(&format!("mixed-{number}"));
        let ends = written(&hasty(&server, &hands), &stream, &texts[..24]).await;
        let mine = server.events().into_iter().next_back().unwrap();
        let renamed = unforget_remote::agentcore::wire::Event {
            actor_id: mine.actor_id,
            session_id: mine.session_id,
            ..foreign.clone()
        };
        server.trick(|tricks| match name {
            "foreign" => tricks.foreign = Some(foreign.clone()),
            "relabelled" => tricks.foreign = Some(renamed),
            "twice" => tricks.has_duplicates = true,
            _ => tricks.is_reordered = true,
        });
        let fresh = hasty(&server, &hands);
        assert_eq!(fresh.frontier(&stream).await.unwrap(), ends[24], "{name}");
        fresh.append(&stream, &ends[24], &lines(&texts[24..])).await.unwrap();
        assert_eq!(conformance::read_all(&hasty(&server, &hands), &stream, 0).await, lines(&texts), "{name}");
        server.trick(|tricks| *tricks = Default::default());
    }
}

#[tokio::test]
async fn h7_credentials_that_have_expired_are_fetched_again() {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    let write = |secret: &str| {
        let text = format!("[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {secret}\n");
        std::fs::write(&file, text).unwrap();
    };
    let mut settings = settings(&server);
    settings.environment.remove("AWS_ACCESS_KEY_ID");
    settings.environment.remove("AWS_SECRET_ACCESS_KEY");
    let path = file.display().to_string();
    settings.environment.insert("AWS_SHARED_CREDENTIALS_FILE".to_owned(), path);
    write("s3cret");
    let remote = AgentCore::new(&settings).unwrap().remote();
    let end = remote.append(&stream("keys"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    let expired = Fault::Error { status: 403, name: "ExpiredTokenException".to_owned() };
    server.fail(Operation::CreateEvent, expired.clone(), 1);
    assert_eq!(remote.append(&stream("keys"), &end, &lines(&["two"])).await.unwrap().lines, 2);
    // The file is read again: what it says now is refused for another reason.
    write("other");
    server.fail(Operation::ListEvents, expired, 1);
    let error = remote.frontier(&stream("keys")).await.unwrap_err();
    assert!(matches!(&error, Error::Denied { reason, .. } if !reason.contains("Expired")), "{error}");
}
