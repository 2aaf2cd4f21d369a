//! Words whose class turns an answer round, in English and Chinese, and words that say the same.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::atoms::WordClass::{
    self, Comparison, Condition, Direction, Modality, Negation, Person, Quantifier, Question, Tense,
};
use crate::synonyms;

/// What a word or phrase is to comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A word of a class, with the label of all words that say the same.
    Word(WordClass, &'static str),
    /// A word that may be there or not: also, just, please.
    Light,
    /// A word of grammar that counts only where it stands in place of another one: in, at, and.
    Function(&'static str),
    /// Content, with the word that stands for it and its synonyms.
    Same(&'static str),
}

/// The longest English phrase, in words, and the longest Chinese one, in characters.
pub(crate) const PHRASE_WORDS: usize = 4;
pub(crate) const PHRASE_CHARACTERS: usize = 5;

/// The meaning of an English phrase in lower case, words joined by one space.
pub(crate) fn english(phrase: &str) -> Option<Meaning> {
    ENGLISH.get(phrase).copied()
}

/// The meaning of a run of Chinese characters.
pub(crate) fn chinese(phrase: &str) -> Option<Meaning> {
    CHINESE.get(phrase).copied()
}

static ENGLISH: LazyLock<HashMap<&'static str, Meaning>> =
    LazyLock::new(|| index(ENGLISH_CLASSES, ENGLISH_LIGHT, ENGLISH_FUNCTION, &[synonyms::ENGLISH]));
static CHINESE: LazyLock<HashMap<&'static str, Meaning>> = LazyLock::new(|| {
    index(CHINESE_CLASSES, CHINESE_LIGHT, CHINESE_FUNCTION, &[synonyms::CHINESE, synonyms::CHINESE_WHOLE])
});

type Classes = &'static [(WordClass, &'static str)];

/// Groups are split by `;`, the words of a group by `|`; the first word is the label of all.
fn index(
    classes: Classes,
    light: &'static str,
    function: &'static str,
    same: &[&'static str],
) -> HashMap<&'static str, Meaning> {
    let groups = |table: &'static str| {
        table.split(';').flat_map(|group| {
            let label = group.split('|').next().unwrap_or(group);
            group.split('|').map(move |word| (word, label))
        })
    };
    let mut map = HashMap::new();
    for table in same {
        map.extend(groups(table).map(|(word, label)| (word, Meaning::Same(label))));
    }
    map.extend(light.split('|').map(|word| (word, Meaning::Light)));
    map.extend(function.split('|').map(|word| (word, Meaning::Function(word))));
    for (class, table) in classes {
        map.extend(groups(table).map(|(word, label)| (word, Meaning::Word(*class, label))));
    }
    map
}

static ENGLISH_CLASSES: Classes = &[
    (
        Negation,
        "\
not|n't;no;never;none;nobody|no one;nothing;nowhere;neither;nor;without;no longer|not anymore;non;\
lack|lacks|lacking;fail|fails|failed;refuse|refuses|refused;false;former;fake;invalid;expired;\
impossible;unlikely;opposite|contrary|reverse;untrue|wrong|incorrect;myth|joke|hoax;ban|banned;forbidden|prohibited;unable",
    ),
    (
        Quantifier,
        "\
all;every|each;everyone|everybody;everything;some;a few|a couple of;someone|somebody;something;\
any;anyone|anybody;anything;most|most of;few;many|lots of|plenty of|a lot of;several;both;either;\
only|solely|exclusively;at least|a minimum of|no less than|no fewer than|minimum;\
at most|up to|a maximum of|no more than|maximum;exactly|precisely;approximately|roughly|circa;\
almost|nearly;half;always|at all times;sometimes|occasionally;\
usually|typically|generally|normally|often|frequently;rarely|seldom|hardly|barely|scarcely;once;twice;\
double;triple;partly|partially|in part;fully|completely|entirely|totally|wholly;first;second;third;\
fourth;fifth;last;final;daily;weekly;monthly;yearly|annually;hourly;another;other|others;same;\
except|excluding|apart from|other than;including;too many;too much;enough;per",
    ),
    (
        Comparison,
        "\
more;greater;larger|bigger;less;fewer;higher;lower;smaller;longer;shorter;faster|quicker;slower;better;\
worse;cheaper;dearer|more expensive;earlier|sooner;later;before|prior to;after|following;\
above|over|more than|greater than|exceeding|exceed|exceeds|beyond;below|under|less than|fewer than;\
within;between;since;until|till;best;worst;highest;lowest;largest|biggest;smallest;longest;shortest;\
oldest;newest;older;newer;earliest;latest;fastest;slowest;cheapest;least;ahead;behind;outside;inside",
    ),
    (
        Modality,
        "\
can|could|able to|are able to|is able to|be able to|am able to;may|might|perhaps|maybe|possibly;\
must|have to|has to|had to|need to|needs to|required to|is required to|are required to|obliged to;\
should|ought to;would;probably|likely;certainly|definitely;want to|wants to|would like to|wish to;\
optional|optionally;mandatory|compulsory|required|obligatory",
    ),
    (
        Tense,
        "\
was|were|used to;did;had;will|shall|going to|'ll;already;yet;still;previously|formerly;\
currently|now|at present|at the moment;soon;last year;next year;this year;last month;next month;this month;last week;next week;this week;\
been;recently;ago;upcoming",
    ),
    (
        Person,
        "\
i|me|myself;my|mine;you|yourself;your|yours;he|him|himself;his;she|herself;her|hers;we|us|ourselves;\
our|ours;they|them|themselves;their|theirs",
    ),
    (
        Condition,
        "\
hypothetically|theoretically|in theory;allegedly|supposedly|reportedly;if|in case|provided that|as long as|provided;unless;or;but|however;although|though|even though;\
instead|instead of|rather than;otherwise;because;whether",
    ),
    (
        Direction,
        "\
from;off;out|out of;into|onto;up;down;toward|towards;back;against;away;via|through",
    ),
    (
        Question,
        "\
who|whom;whose;when|what time;where;why|how come;how many;how much;how long;how often;how far;how old;\
how;what;which",
    ),
];

const ENGLISH_LIGHT: &str = "\
a|an|the|is|are|am|be|being|do|does|of|that|as well|also|just|simply|please|then|so|well|too|really|\
very|quite|indeed|additionally|furthermore|moreover|in addition|actually|basically|kindly|easily|\
here|there|as follows|note that|please note|in fact|of course|certainly yes|therefore|thus|\
hence|accordingly|specifically|in general|overall|sure";

const ENGLISH_FUNCTION: &str = "\
to|in|on|at|by|for|with|and|as|about|than|this|these|those|it|its|has|have|while|during|across|around|\
upon|among|like|which is|let|s";

static CHINESE_CLASSES: Classes = &[
    (
        Negation,
        "\
不|不能够;没|没有|沒有;无|無;未|尚未|还没|还没有;非;勿|请勿|切勿;别|不要;从不|从来不;不再;否;禁止|严禁;\
拒绝;失败;无法;缺少|缺乏;假;过期;无效",
    ),
    (
        Quantifier,
        "\
所有|全部|一切;每|每个|每位|各|各个;一些|有些|某些|部分;任何|任意;大多数|多数|大部分;少数;\
许多|很多|大量|不少;几个|若干;都;只|仅|只有|仅限|仅仅|只能;至少|最少|不少于|不低于;\
至多|最多|不超过|不多于|不高于;正好|恰好|刚好;大约|大概|左右|约;几乎|差不多;一半;总是|始终|一直;\
有时|偶尔;通常|一般|经常|往往;很少|极少;一次;两次;完全|全;首次|第一次|第一;第二;第三;最后;每天|每日;\
每周;每月;每年;除了;包括|包含;足够;双倍;单次",
    ),
    (
        Comparison,
        "\
大于|多于|超过|高于;以上;小于|少于|低于|不到|不足;以下;更多;更少;更高;更低;更快;更慢;更好;更差;更便宜;\
更贵;之前|以前|前;之后|以后|后;最大;最小;最高;最低;最快;最慢;最早;最晚|最迟;最新;最旧;以内|之内|内;\
以外|之外|外;比;提前;推迟;期间;截至|截止;上;下",
    ),
    (
        Modality,
        "\
可以|能|能够|可|能不能|可不可以|能否|可否;也许|可能|或许;必须|须|务必|必需|一定要|得;应该|应当|应;\
需要|需|要不要|需不需要;想|想要|希望;一定|肯定;自愿|可选",
    ),
    (
        Tense,
        "\
了;过;将|将会|将要|即将|会|会不会;已|已经;曾|曾经;正在|在线中;仍|仍然|还是;刚|刚刚|刚才;\
去年;前年;今年|本年;明年;后年;上个月|上月;下个月|下月;本月|这个月;上周;下周;本周|这周;\
目前|现在|当前|如今;原来",
    ),
    (
        Person,
        "\
我;我的|本人的;你|您;你的|您的;他;他的;她;她的;我们|咱们;我们的|本店|我司;你们|您们;他们|她们;\
他们的|她们的|其;自己",
    ),
    (
        Condition,
        "\
如果|若|如|要是|假如|倘若;除非;或|或者|还是说;但|但是|不过|然而;虽然|尽管;否则;因为|由于;只要;是否",
    ),
    (
        Direction,
        "\
从|自;到|至;向|往;进|入;出;由;被;把|将其;给;回;换成|兑换成|转成",
    ),
    (
        Question,
        "\
谁;哪里|哪儿|何处|什么地方;什么时候|何时|几点|啥时候;为什么|为何|怎么会;多少;多久|多长时间|几天;\
怎么|怎样|如何|怎么样;什么|啥;哪个|哪些|哪;几",
    ),
];

const CHINESE_LIGHT: &str = "\
的|地|吗|呢|吧|请您|请你|啊|呀|哦|嘛|是|是不是|有没有|也|就|请|请问|那么|此外|另外|还|同时|非常|很|十分|其实|您好|\
你好|谢谢|麻烦|一下|直接|即可|所以|因此|对不起|好的|当然|需注意|请注意|注意|这|该|个|不仅|而且|便|来|去";

const CHINESE_FUNCTION: &str = "\
在|于|和|与|及|以及|跟|对|为|用|以|按|按照|通过|根据|等|之|所|有|那|这个|那个|这些|那些|它|不同|不错|\
不同的";
