//! What the sandbox of chat templates offers, and where it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use common::templates::{TOKENIZER, render, text_of};
use zlrs_model::ModelError;
use zlrs_model::template::ChatTemplate;

fn rendered(source: &str) -> Result<String, ModelError> {
    let template = ChatTemplate::new(source, &TOKENIZER)?;
    render(&template, &[("user", "a <b> & 'c' \"d\" \\u003c é".into())]).map(|segments| text_of(&segments))
}

#[test]
fn the_language_templates_are_written_in() {
    let cases = [
        ("{{ messages[0].content | tojson }}", r#""a <b> & 'c' \"d\" \\u003c é""#),
        ("{{ {'b': [1, 2.5, none, true], 'a': '<'} | tojson }}", r#"{"b": [1, 2.5, null, true], "a": "<"}"#),
        ("{{ [1, {'k': 2}] | tojson(indent=2) }}", "[\n  1,\n  {\n    \"k\": 2\n  }\n]"),
        ("{{ 'a' | tojson(ensure_ascii=False) }}", "\"a\""),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        (
            "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "023",
        ),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{{ m('a') }}", "[1][a]"),
        (
            "{{ 'a,b'.split(',') | last }}{{ ' x '.strip() }}{{ 'abc'.startswith('ab') }}{{ 'ab'.upper() }}",
            "bxTrueAB",
        ),
        ("{{ messages[0].get('name', 'none') }}{{ messages[0].tool_calls is defined }}", "noneFalse"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}", "0"),
        ("{{ messages[-1].role }}{{ messages[::-1][0].role }}{{ messages[0]['content'][:1] }}", "useruser"),
        ("{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %-d') }}", "2024-01-02 03:04:05 Tuesday January 2"),
        ("{% if tools %}t{% endif %}{% if tools is not none %}n{% endif %}{{ undefined_thing }}", ""),
        ("  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"),
        ("{% generation %}a{% endgeneration %}{%- generation -%} b {%- endgeneration -%} c", "abc"),
        ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
        ("{{ '%s-%s' | format(1, 'b') }}{{ 'a' ~ 1 }}{{ 7 // 2 }}{{ 'x' * 3 }}", "1-ba13xxx"),
        ("{{ 'a' if messages is iterable and messages is not string and messages[0] is mapping }}", "a"),
        ("{% filter upper %}ab{% endfilter %}{% set x %}y{% endset %}{{ x }}", "ABy"),
        ("{{ dict(a=1) | items | list }}{{ {'a': 1}.items() | list }}", "[('a', 1)][('a', 1)]"),
    ];
    for (source, expected) in cases {
        let result = rendered(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(
            result.starts_with(expected) && (result == expected || source.contains("[:1]")),
            "{source}: {result:?}"
        );
    }
}

#[test]
fn the_sandbox_ends_what_does_not_end() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500));
    let cases = [
        ("{% for i in range(100000000) %}x{% endfor %}", ""),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", ""),
        (
            "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
            "steps",
        ),
        ("{{ 'x' * 1000000000 }}", ""),
        ("{% include 'chat_template' %}", "include"),
        ("{% import 'chat_template' as x %}", "import"),
        ("{% extends 'chat_template' %}", "extends"),
        ("{{ no_such_function() }}", "no_such_function"),
        ("{{ messages | no_such_filter }}", "no_such_filter"),
        ("{{ messages[0].role.x.y }}", ""),
        ("{{ strftime_now('%!') }}", "strftime_now"),
        ("{{ raise_exception('no') }}", "refused the messages: no"),
        ("{{ 'unclosed", ""),
        ("{% if %}", "syntax"),
        (deep.as_str(), ""),
    ];
    for (source, words) in cases {
        let error = rendered(source).unwrap_err().to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
}

#[test]
fn output_and_source_have_limits() {
    let template =
        ChatTemplate::new("{% for i in range(9) %}{{ messages[0].content }}{% endfor %}", &TOKENIZER);
    let long = "x".repeat(1 << 20);
    let error = render(&template.unwrap(), &[("user", long)]).unwrap_err();
    assert!(matches!(error, ModelError::Limit { limit: 8_388_608, .. }), "{error}");
    let error = rendered(&" ".repeat((1 << 20) + 1)).unwrap_err();
    assert!(matches!(error, ModelError::Limit { given: 1_048_577, .. }), "{error}");
}

/// Values nested as deep as the steps allow must not exhaust the stack, neither compared nor printed nor
/// dropped.
#[test]
fn deep_values_do_not_exhaust_the_stack() {
    let literal = format!("{}ns.x{}", "[".repeat(120), "]".repeat(120));
    let builds = ["[ns.x]", "{'k': ns.x}", "(ns.x,)", "namespace(x=ns.x)", literal.as_str()];
    let ends =
        ["", "{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x] }}", "{{ [ns.x] | unique | length }}"];
    for build in builds {
        for end in ends {
            for rounds in [50, 500, 5_000, 100_000] {
                let source = format!(
                    "{{% set ns = namespace(x=[]) %}}\
                     {{% for i in range({rounds}) %}}{{% set ns.x = {build} %}}{{% endfor %}}{end}"
                );
                // Any result will do.
                let _ = rendered(&source);
            }
        }
    }
    // A value that is small because it shares its parts, and without end when written out.
    for end in ["{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x | string | length }}", "{{ ns.x | join }}"] {
        let source = format!(
            "{{% set ns = namespace(x=[]) %}}\
             {{% for i in range(60) %}}{{% set ns.x = [ns.x, ns.x] %}}{{% endfor %}}{end}"
        );
        let error = rendered(&source).unwrap_err().to_string();
        assert!(error.contains("cannot be written out"), "{end}: {error}");
    }
    // As deep without a loop as the source's length allows.
    let source = format!("{{% set x = [] %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(61_000));
    let _ = rendered(&source);
}
