//! The example does what it says.

#[expect(dead_code, reason = "its `main` only shows what `run` gives back")]
#[path = "../../examples/agent_loop.rs"]
mod agent_loop;

#[tokio::test]
async fn an_agent_of_ones_own_calls_its_tool_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let told = agent_loop::run(folder.path()).await.unwrap();
    let expected = [
        "multiply was allowed",
        r#"multiply {"factors":[6,7]} gave 42"#,
        "What is 6 x 7? It is 42.",
        "multiply was allowed",
        r#"multiply {"factors":[12,12]} gave 144"#,
        "And 12 x 12? It is 144.",
    ];
    assert_eq!(told, expected);
}
