//! Words that say the same, and words that say the opposite. Short on purpose: a missing pair costs a judgement, a
//! wrong one an answer.

/// Groups of English words that may stand for each other, as lemmas; the first stands for all.
pub(crate) const ENGLISH: &str = "\
buy|purchase;start|begin|commence;finish|complete;help|assist|aid;repair|fix|mend;obtain|acquire;\
choose|select|pick;show|display;delete|remove|erase;quick|fast|rapid|speedy;\
quickly|rapidly|promptly|fast;big|large;small|little|tiny;glad|happy|pleased;photo|photograph|picture;\
phone|telephone;shop|store;customer|client;parcel|package;reimburse|pay back;use|utilize|utilise|employ;\
correct|accurate;close|shut;free|complimentary|free of charge|at no cost|at no charge|for free;\
allow|permit|allowed|permitted;forbid|prohibit|ban;answer|reply|respond;\
contact|reach out to|get in touch with;tap|click|press;navigate to|head to|go to|visit;\
enter|type in|key in;login|log in|sign in|log into|sign into;find|locate;create|set up;\
change|modify|alter|amend;cellphone|mobile phone|cell phone;doctor|physician;movie|film;\
immediately|instantly|right away|at once|straight away;app|application;website|web site|site;\
cancel|call off;postpone|put off|defer;verify|confirm;kind|type;difficult|hard;\
easy|simple|straightforward;important|crucial|essential|vital;near|close to;trip|journey;\
ensure|make sure;send|dispatch;provide|supply|offer;error|mistake;car|automobile;street|road;\
obviously|clearly;reason|cause;amount|sum;entire|whole;rest|remainder;e-mail|email;\
additional|extra|further;request|ask for;arrive|be delivered;details|particulars;document|paper;\
illness|sickness;child|kid;automatically|by itself;fee|charge";

/// Groups of Chinese words that may stand for each other.
pub(crate) const CHINESE: &str = "\
立即|马上|立刻;购买|买;商品|产品|货品;帮助|协助;查看|查询|查;选择|挑选|选;点击|单击|点按;取消|撤销;\
修改|更改|变更;客户|顾客;结束|完毕;提供|给予;联系|联络;账户|帐户|账号|帐号;密码|口令;登录|登陆;\
价格|价钱|售价;商店|店铺|门店;使用|采用;获得|得到|取得;允许|准许;快速|迅速;问题|难题;手机|移动电话;\
退款|退钱|返款;开始|起始;包裹|快件;发送|寄送;免费|不收费|不收取费用;完成|办完;输入|填写|填入;\
客服人员|客服;时间|时长;支付|付款;重新|再次|再;详情|详细信息";

/// Chinese words that hold a character of a class and are not of it.
pub(crate) const CHINESE_WHOLE: &str = "\
会员;自动;别人;单位;简单;回复;到达;出发;进行;不同;过程;全国;安全;上海;下载;上传;以及;出售;自由;机会;\
会议;社会;非洲;内容;外卖;前台;后台;出口;进口;退出;输出;支出;收入;进入;线上;线下;上午;下午;国内;国外";

/// Pairs of English opposites, as lemmas. Opposites by prefix (un-, in-, dis-, non-) are found by rule.
pub(crate) const ENGLISH_OPPOSITES: &str = "\
enable/disable|open/close|open/shut|opened/closed|start/stop|start/end|begin/end|start/finish|buy/sell|\
increase/decrease|increase/reduce|raise/lower|accept/decline|accept/reject|accept/refuse|approve/reject|\
approve/deny|allow/forbid|allow/deny|allow/block|allow/prevent|permit/prohibit|add/remove|add/delete|\
add/subtract|insert/remove|insert/delete|multiply/divide|encrypt/decrypt|encode/decode|lock/unlock|\
login/logout|login/log out|deposit/withdraw|credit/debit|lend/borrow|send/receive|push/pull|\
import/export|upload/download|upgrade/downgrade|install/uninstall|attach/detach|connect/disconnect|\
subscribe/unsubscribe|activate/deactivate|activate/cancel|mount/unmount|freeze/unfreeze|expand/collapse|\
hide/show|win/lose|pass/fail|succeed/fail|success/failure|hot/cold|warm/cool|high/low|higher/lower|\
big/small|large/small|long/short|longer/shorter|wide/narrow|thick/thin|heavy/light|strong/weak|\
hard/soft|hard/easy|difficult/easy|fast/slow|quick/slow|faster/slower|early/late|earlier/later|new/old|\
newer/older|newest/oldest|first/last|good/bad|better/worse|best/worst|right/wrong|right/left|true/false|\
safe/dangerous|safe/unsafe|legal/illegal|legal/unlawful|public/private|internal/external|\
domestic/international|domestic/foreign|inside/outside|indoor/outdoor|before/after|above/below|\
over/under|up/down|top/bottom|front/back|north/south|east/west|positive/negative|plus/minus|more/less|\
more/fewer|most/least|maximum/minimum|max/min|cheap/expensive|cheaper/dearer|rich/poor|free/paid|\
full/empty|full/partial|fixed/variable|temporary/permanent|optional/mandatory|optional/required|\
online/offline|live/dead|alive/dead|present/absent|include/exclude|inclusive/exclusive|always/never|\
all/none|everyone/nobody|ascending/descending|forward/backward|asc/desc|input/output|income/expense|\
profit/loss|gain/loss|gain/lose|arrive/depart|arrive/leave|arrival/departure|enter/exit|enter/leave|\
inbound/outbound|incoming/outgoing|ask/answer|create/delete|create/destroy|build/destroy|save/delete|\
save/spend|keep/discard|join/leave|hire/fire|lost/found|lost/stolen|employer/employee|buyer/seller|\
sender/recipient|sender/receiver|landlord/tenant|teacher/student|parent/child|husband/wife|male/female|\
man/woman|day/night|morning/evening|summer/winter|wet/dry|clean/dirty|black/white|dark/light|loud/quiet|\
single/double|single/married|physical/virtual|pending/completed|freeze/thaw|rise/fall|rise/drop|\
grow/shrink|ahead/behind|major/minor|senior/junior|advantage/disadvantage|benefit/drawback|pro/con|\
pros/cons|merge/split|compress/decompress|zip/unzip|on/off|in/out|renew/cancel|extend/shorten|\
extend/reduce|mute/unmute|follow/unfollow|wireless/wired|manual/automatic|manually/automatically|\
guilty/innocent|sync/async|read/write|encourage/discourage|agree/disagree|support/oppose|improve/worsen|\
remember/forget|love/hate|like/dislike";

/// Pairs of Chinese opposites.
pub(crate) const CHINESE_OPPOSITES: &str = "\
打开/关闭|开启/关闭|启用/禁用|启用/停用|开始/结束|开始/停止|增加/减少|增加/降低|提高/降低|上升/下降|\
上涨/下跌|买/卖|购买/出售|接受/拒绝|同意/拒绝|同意/反对|批准/拒绝|批准/驳回|允许/禁止|添加/删除|\
新增/删除|增加/删除|加密/解密|锁定/解锁|登录/退出|登录/登出|存款/取款|存入/取出|借出/借入|发送/接收|\
导入/导出|上传/下载|升级/降级|安装/卸载|连接/断开|订阅/退订|激活/停用|激活/注销|注册/注销|\
冻结/解冻|展开/收起|显示/隐藏|成功/失败|热/冷|高/低|大/小|长/短|宽/窄|厚/薄|重/轻|强/弱|\
快/慢|早/晚|新/旧|好/坏|对/错|左/右|真/假|安全/危险|合法/非法|公开/私密|公开/私有|国内/国外|国内/国际|\
境内/境外|里/外|内/外|前/后|上/下|东/西|南/北|多/少|最大/最小|最高/最低|便宜/贵|免费/收费|免费/付费|\
满/空|固定/浮动|临时/永久|线上/线下|在线/离线|总是/从不|升序/降序|输入/输出|\
收入/支出|盈利/亏损|到达/离开|到达/出发|进入/离开|进口/出口|创建/删除|加入/退出|买家/卖家|寄件人/收件人|\
发件人/收件人|房东/租客|老师/学生|男/女|白天/晚上|上午/下午|夏/冬|干/湿|优点/缺点|优势/劣势|合并/拆分|\
压缩/解压|续订/取消|延长/缩短|有效/无效|有/无|赢/输|支持/反对|手动/自动|丢失/被盗|借记/贷记|必填/选填|\
公历/农历|收货/发货";

/// The pairs of a table of opposites.
pub(crate) fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.split('|').filter_map(|pair| pair.split_once('/'))
}
