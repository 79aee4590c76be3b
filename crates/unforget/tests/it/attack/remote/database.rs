//! The database.

use unforget_testkit::servers::postgres::shared;

use super::*;

/// Runs statements as the database's owner.
fn sql(text: &str) {
    let server = shared();
    let output = Command::new("psql")
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
        .arg(&server.dir)
        .args(["-p", &server.port.to_string(), "-c", text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {output:?}");
}

type Statement = (&'static str, &'static str, &'static [&'static str]);

/// Attacks on a database by its owner; `{s}` is its schema, `{f}` one with the same session, forged and in plain.
const STATEMENTS: [Statement; 7] = [
    (
        "plain for sealed",
        "DELETE FROM {s}.segments WHERE life IN (SELECT life FROM {s}.streams WHERE session NOT LIKE '@%' AND side = '');
         INSERT INTO {s}.segments SELECT s.life, g.first_line, g.end_line, g.head, g.body FROM {f}.segments g JOIN {f}.streams f USING (life)
         JOIN {s}.streams s USING (tenant, place, session, side) WHERE session NOT LIKE '@%' AND side = ''",
        ALL,
    ),
    (
        "forged pointer",
        "DELETE FROM {s}.segments WHERE life IN (SELECT life FROM {s}.streams WHERE session = '@key');
         INSERT INTO {s}.segments SELECT s.life, g.first_line, g.end_line, g.head, g.body FROM {f}.segments g JOIN {f}.streams f USING (life)
         JOIN {s}.streams s USING (tenant, place, session, side) WHERE session = '@key'",
        BY_KEY,
    ),
    (
        "cut tail",
        "DELETE FROM {s}.segments g USING {s}.streams s WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'
         AND g.first_line = (SELECT max(first_line) FROM {s}.segments m WHERE m.life = g.life)",
        READERS,
    ),
    (
        "gap",
        "DELETE FROM {s}.segments g USING {s}.streams s WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'
         AND g.first_line > 0 AND g.first_line < (SELECT max(first_line) FROM {s}.segments m WHERE m.life = g.life)",
        READERS,
    ),
    (
        "changed byte",
        "UPDATE {s}.segments SET body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1)",
        READERS,
    ),
    (
        "body of gigabytes",
        "UPDATE {s}.segments g SET body = decode(repeat('00', 40 << 20), 'hex') FROM {s}.streams s
         WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'",
        READERS,
    ),
    (
        "escapes in errors",
        "CREATE FUNCTION {s}.hostile() RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', E'\\x1b]0;pwned\\x07' USING ERRCODE = '22000'; END $$;
         ALTER TABLE {s}.segments RENAME TO kept_segments;
         CREATE VIEW {s}.segments AS SELECT life, first_line, end_line, {s}.hostile() AS head, body FROM {s}.kept_segments",
        ALL,
    ),
];

/// Puts the attacks to whoever is to be attacked; schemas begin with `prefix`.
fn put(prefix: &str, to: impl FnOnce(&Ground, &Site, Vec<Attack<'_>>)) {
    // Turn by turn, so that there is something to cut; each attack has a schema of its own.
    let writer = Home::new();
    let key = Some(writer.write("remote.key", "ab".repeat(32)));
    let id = writer.conversation(KEY, &["one", "two", "three"]);
    let at = |schema: &str| Site::new(shared().url(&format!("{prefix}_{schema}")), Vec::new(), ());
    send(&forger(&writer, &id), &at("forged"), None, &id);
    let schemas: Vec<String> = (0..=STATEMENTS.len()).map(|number| number.to_string()).collect();
    for word in ["four", "five", ""] {
        schemas.iter().for_each(|schema| send(&writer, &at(schema), key.as_deref(), &id));
        if !word.is_empty() {
            say(&writer, &id, word);
        }
    }
    let (honest, attacked) = schemas.split_last().unwrap();
    let ground = Ground { writer, id, key, url: at(honest).url };
    let attack = |((name, statements, refuse), schema): (&Statement, &String)| {
        let text = statements.replace("{s}", &format!("{prefix}_{schema}")).replace("{f}", &format!("{prefix}_forged"));
        let site = at(schema).url;
        let site = move || {
            sql(&text);
            Site::new(site.clone(), Vec::new(), ())
        };
        Attack { name, refuse, site: Box::new(site) }
    };
    let attacks: Vec<_> = STATEMENTS.iter().zip(attacked).map(attack).collect();
    to(&ground, &at(honest), attacks);
}

#[test]
fn s1_a_hostile_database_with_a_key() {
    let again = |site: &Site| Site::new(site.url.clone(), Vec::new(), ());
    put("attack", |ground, honest, attacks| ground.put_to("remote-postgres-sealed", || again(honest), &attacks));
}

#[test]
fn s1_a_hostile_database_with_a_key_against_a_server() {
    put("siege", |ground, _, attacks| {
        ground.put_to_server("server-postgres-sealed", &attacks);
    });
}
