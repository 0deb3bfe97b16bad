//! Lines of megabytes and bytes that are no text: shown, kept and survived.

#[path = "support/place.rs"]
mod place;

use std::fs;

use opkit_domain::session::{Outcome, OutputFormat, files};
use place::Place;

#[test]
fn a_line_of_four_megabytes_and_bytes_that_are_no_text_end_nothing() {
    let mut place = Place::new("good");
    // A tool result of 4 MB on one line, one of 4 MB that is no JSON, and one that is no UTF-8.
    place.agent_script(
        r#"printf '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"'
        head -c 4194304 /dev/zero | tr '\0' 'a'
        printf '"}]}}\n'
        head -c 4194304 /dev/zero | tr '\0' 'b'
        printf '\n\377\376\300\200 half \303\n'
        printf '{"type":"result","is_error":false,"result":"Done","num_turns":1,"total_cost_usd":0}\n'"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}", exit.detail);
    assert_eq!(exit.summary, "Done", "what follows is still understood");
    // The transcript is what the agent said, byte for byte.
    let transcript = fs::read(place.session().join(files::TRANSCRIPT)).expect("a transcript");
    assert!(transcript.len() > 8 << 20, "{} bytes", transcript.len());
    let raw = b"\n\xff\xfe\xc0\x80 half \xc3\n";
    assert!(transcript.windows(raw.len()).any(|part| part == raw));
    // The record is text for people.
    let record = place.record();
    assert!(record.contains(" half ") && !record.contains('\0'));
}
