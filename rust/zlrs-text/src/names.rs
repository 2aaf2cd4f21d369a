//! Names that are told apart without their capitals: currencies, places, firms, days of the calendar.

use std::collections::HashSet;
use std::sync::LazyLock;

static NAMES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| ENGLISH.split('|').chain(CHINESE.split('|')).collect());

/// Whether a word in lower case, or a run of Chinese characters, is a known name.
pub(crate) fn is_name(word: &str) -> bool {
    NAMES.contains(word)
}

const ENGLISH: &str = "usd|eur|gbp|jpy|cny|rmb|inr|krw|cad|aud|chf|sgd|hkd|btc|eth|\
america|britain|england|scotland|wales|ireland|france|germany|italy|spain|portugal|norway|sweden|denmark|finland|poland|austria|switzerland|belgium|netherlands|greece|turkey|russia|ukraine|china|japan|korea|india|pakistan|indonesia|malaysia|singapore|thailand|vietnam|philippines|australia|canada|mexico|brazil|argentina|chile|peru|egypt|nigeria|kenya|israel|iran|iraq|europe|asia|africa|\
london|paris|berlin|madrid|rome|vienna|lisbon|dublin|oslo|stockholm|copenhagen|helsinki|warsaw|prague|moscow|tokyo|kyoto|osaka|seoul|beijing|shanghai|shenzhen|guangzhou|delhi|mumbai|sydney|melbourne|toronto|chicago|boston|seattle|texas|california|florida|ohio|alaska|hawaii|\
google|amazon|apple|microsoft|netflix|spotify|facebook|instagram|twitter|youtube|paypal|visa|mastercard|amex|android|windows|linux|macos|ios|python|java|javascript|rust|golang|mysql|postgres|postgresql|sqlite|redis|docker|kubernetes|chrome|firefox|safari|outlook|gmail|english|french|german|spanish|italian|chinese|japanese|korean|russian|arabic|hindi|portuguese|dutch";

const CHINESE: &str = "美国|英国|法国|德国|意大利|西班牙|葡萄牙|挪威|瑞典|丹麦|芬兰|波兰|奥地利|瑞士|比利时|荷兰|希腊|土耳其|俄罗斯|乌克兰|中国|日本|韩国|印度|新加坡|泰国|越南|澳大利亚|加拿大|墨西哥|巴西|埃及|欧洲|亚洲|非洲|\
北京|上海|广州|深圳|杭州|南京|成都|重庆|武汉|西安|天津|苏州|香港|澳门|台北|东京|大阪|首尔|伦敦|巴黎|柏林|罗马|纽约|\
美元|欧元|英镑|日元|人民币|港元|港币|韩元|卢布|支付宝|微信|淘宝|京东|苹果|华为|小米|谷歌|微软|百度|腾讯|阿里巴巴|招商银行|工商银行|建设银行|英语|法语|德语|日语|韩语|中文|汉语|俄语|西班牙语";
