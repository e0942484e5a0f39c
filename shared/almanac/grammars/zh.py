"""Chinese (Mandarin, simplified) in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

from shared.almanac.phrases import Word

GENDERS: dict[str, str] = {}
#: The second form is the measure word, where it is not 个.
LEXICON = {
    "woman": """
anna = 安娜; emma = 艾玛; laura = 劳拉; clara = 克拉拉; maria = 玛丽亚; julia = 朱莉娅; eva = 伊娃; nina = 妮娜
sara = 萨拉; lena = 莱娜; marta = 玛尔塔; elena = 叶莲娜; irina = 伊琳娜; olga = 奥尔加; vera = 薇拉; diana = 黛安娜
rosa = 罗莎; teresa = 特蕾莎; paula = 宝拉; silvia = 西尔维娅; monika = 莫妮卡; natalia = 娜塔莉亚
""",
    "man": """
peter = 彼得; paul = 保罗; martin = 马丁; david = 大卫; robert = 罗伯特; thomas = 托马斯; daniel = 丹尼尔; simon = 西蒙
victor = 维克托; anton = 安东; igor = 伊戈尔; ivan = 伊万; max = 马克斯; felix = 菲利克斯; mark = 马克; stefan = 斯特凡
boris = 鲍里斯; oscar = 奥斯卡; arthur = 亚瑟; philip = 菲利普; alexander = 亚历山大; andreas = 安德烈亚斯
""",
    "city": """
berlin = 柏林; paris = 巴黎; london = 伦敦; rome = 罗马; vienna = 维也纳; istanbul = 伊斯坦布尔; munich = 慕尼黑
cologne = 科隆; geneva = 日内瓦; hamburg = 汉堡; prague = 布拉格; athens = 雅典; madrid = 马德里; lisbon = 里斯本
warsaw = 华沙; moscow = 莫斯科; budapest = 布达佩斯; dublin = 都柏林; brussels = 布鲁塞尔; amsterdam = 阿姆斯特丹
milan = 米兰; naples = 那不勒斯; venice = 威尼斯; florence = 佛罗伦萨; barcelona = 巴塞罗那; seville = 塞维利亚
zurich = 苏黎世; oslo = 奥斯陆; stockholm = 斯德哥尔摩; helsinki = 赫尔辛基; copenhagen = 哥本哈根; tokyo = 东京
beijing = 北京; shanghai = 上海; ankara = 安卡拉; sydney = 悉尼; chicago = 芝加哥; boston = 波士顿; riga = 里加
vilnius = 维尔纽斯; tallinn = 塔林; belgrade = 贝尔格莱德; zagreb = 萨格勒布; izmir = 伊兹密尔
""",
    "thing": """
bag = 包; suitcase = 箱子; umbrella = 雨伞, 把; hat = 帽子, 顶; key = 钥匙, 把; book = 书, 本; shirt = 衬衫, 件
lamp = 灯, 盏; scarf = 围巾, 条; table = 桌子, 张; chair = 椅子, 把; bed = 床, 张; mirror = 镜子, 面; knife = 刀, 把
fork = 叉子, 把; spoon = 勺子, 把; plate = 盘子; cup = 茶杯; bottle = 瓶子; box = 盒子; basket = 篮子
bicycle = 自行车, 辆; guitar = 吉他, 把; camera = 相机, 台; computer = 电脑, 台; newspaper = 报纸, 份; letter = 信, 封
picture = 画, 幅; pencil = 铅笔, 支; ring = 戒指, 枚; jacket = 夹克, 件; dress = 裙子, 条; belt = 皮带, 条
sweater = 毛衣, 件; blanket = 毯子, 条; pillow = 枕头; candle = 蜡烛, 支; ladder = 梯子, 架; hammer = 锤子, 把
brush = 刷子, 把; towel = 毛巾, 条; comb = 梳子, 把; wallet = 钱包; ticket = 票, 张; toy = 玩具; ball = 球; doll = 娃娃
carpet = 地毯, 块; map = 地图, 张; glass = 玻璃杯
""",
    "animal": """
horse = 马, 匹; dog = 狗, 条; cat = 猫, 只; cow = 奶牛, 头; sheep = 绵羊, 只; bird = 鸟, 只; duck = 鸭子, 只
goat = 山羊, 只; pig = 猪, 头; rabbit = 兔子, 只; chicken = 鸡, 只; donkey = 驴, 头; lion = 狮子, 头; tiger = 老虎, 只
elephant = 大象, 头; bear = 熊, 头; wolf = 狼, 只; fox = 狐狸, 只; mouse = 小鼠, 只; rat = 大鼠, 只; snake = 蛇, 条
frog = 青蛙, 只; fish = 鱼, 条; bee = 蜜蜂, 只; ant = 蚂蚁, 只; spider = 蜘蛛, 只; butterfly = 蝴蝶, 只; eagle = 鹰, 只
owl = 猫头鹰, 只; pigeon = 鸽子, 只; parrot = 鹦鹉, 只; swan = 天鹅, 只; goose = 鹅, 只; monkey = 猴子, 只
camel = 骆驼, 匹; giraffe = 长颈鹿, 只; crocodile = 鳄鱼, 条; turtle = 乌龟, 只; whale = 鲸, 头; dolphin = 海豚, 只
zebra = 斑马, 匹; squirrel = 松鼠, 只; hedgehog = 刺猬, 只; kangaroo = 袋鼠, 只; penguin = 企鹅, 只
""",
    "food": """
rice = 大米; bread = 面包; butter = 黄油; cheese = 奶酪; flour = 面粉; sugar = 糖; salt = 盐; pepper = 胡椒; meat = 肉
ham = 火腿; honey = 蜂蜜; chocolate = 巧克力; fish = 鱼; pasta = 面条; apples = 苹果; pears = 梨; oranges = 橙子
lemons = 柠檬; bananas = 香蕉; grapes = 葡萄; cherries = 樱桃; strawberries = 草莓; plums = 李子; peaches = 桃子
melons = 甜瓜; potatoes = 土豆; tomatoes = 西红柿; onions = 洋葱; carrots = 胡萝卜; cucumbers = 黄瓜; beans = 豆子
peas = 豌豆; mushrooms = 蘑菇; garlic = 大蒜; cabbage = 卷心菜; spinach = 菠菜; nuts = 坚果; almonds = 杏仁
olives = 橄榄; figs = 无花果; coffee = 咖啡; tea = 茶叶
""",
    "place": """
bakery = 面包店, 家; museum = 博物馆; school = 学校, 所; hotel = 酒店, 家; bank = 银行, 家; pharmacy = 药店, 家
library = 图书馆; restaurant = 餐馆, 家; cinema = 电影院, 家; theater = 剧院, 家; hospital = 医院, 家; church = 教堂
kitchen = 厨房; park = 公园; village = 村子; castle = 城堡; prison = 监狱; sauna = 桑拿房; university = 大学, 所
supermarket = 超市, 家; shop = 商店, 家; cafe = 咖啡馆, 家; bar = 酒吧, 家; club = 俱乐部, 家; garage = 车库
tunnel = 隧道; tent = 帐篷; cave = 山洞; desert = 沙漠; valley = 山谷; tower = 塔; forest = 森林; circus = 马戏团
laboratory = 实验室; pool = 游泳池; stable = 马厩; monastery = 修道院; embassy = 大使馆; clinic = 诊所, 家
studio = 工作室; cathedral = 大教堂; hut = 小屋; temple = 寺庙; basement = 地下室
""",
    "job": """
doctor = 医生; teacher = 老师; baker = 面包师; cook = 厨师; driver = 司机; farmer = 农民; judge = 法官; lawyer = 律师
nurse = 护士; singer = 歌手; actor = 演员; painter = 画家; writer = 作家; dancer = 舞者; engineer = 工程师
architect = 建筑师; pilot = 飞行员; sailor = 水手; soldier = 士兵; policeman = 警察; butcher = 屠夫; tailor = 裁缝
waiter = 服务员; hairdresser = 理发师; gardener = 园丁; hunter = 猎人; fisherman = 渔夫; mechanic = 技工
electrician = 电工; plumber = 水管工; journalist = 记者; photographer = 摄影师; librarian = 图书管理员; postman = 邮递员
musician = 音乐家; scientist = 科学家; translator = 翻译; student = 学生; king = 国王; queen = 女王
""",
    "activity": """
swim = 游泳; dance = 跳舞; sing = 唱歌; cook = 做饭; read = 看书; write = 写字; draw = 素描; paint = 画画; drive = 开车
ride = 骑马; run = 跑步; climb = 攀岩; fish = 钓鱼; hunt = 打猎; sew = 缝纫; knit = 编织; count = 数数; whistle = 吹口哨
dive = 潜水; row = 划船; fly = 飞; jump = 跳; sleep = 睡觉; rest = 休息; work = 工作; travel = 旅行; wait = 等待
pay = 付钱; eat = 吃饭; drink = 喝酒; talk = 聊天; laugh = 笑; cry = 哭; smoke = 抽烟; play = 玩; wash = 洗衣服
think = 思考; help = 帮忙; fight = 打架; pray = 祈祷; dream = 做梦; shout = 喊叫; cough = 咳嗽
""",
    "subject": """
mathematics = 数学; physics = 物理; chemistry = 化学; biology = 生物; history = 历史; geography = 地理; music = 音乐
art = 美术; philosophy = 哲学; medicine = 医学; law = 法律; economics = 经济学; politics = 政治; psychology = 心理学
sociology = 社会学; astronomy = 天文学; geology = 地质学; architecture = 建筑学; english = 英语; german = 德语
french = 法语; russian = 俄语; turkish = 土耳其语; chinese = 汉语; spanish = 西班牙语; italian = 意大利语
greek = 希腊语; latin = 拉丁语; arabic = 阿拉伯语; japanese = 日语; portuguese = 葡萄牙语; polish = 波兰语
dutch = 荷兰语; swedish = 瑞典语; hungarian = 匈牙利语; czech = 捷克语; finnish = 芬兰语; danish = 丹麦语
norwegian = 挪威语; hebrew = 希伯来语
""",
    "event": """
concert = 音乐会, 场; wedding = 婚礼, 场; exam = 考试, 场; party = 聚会; festival = 节日; conference = 大会
meeting = 会议; lecture = 讲座, 场; lesson = 课, 节; match = 比赛, 场; race = 赛跑, 场; game = 游戏; exhibition = 展览
opera = 歌剧, 场; ballet = 芭蕾舞, 场; play = 话剧, 场; reading = 朗诵会, 场; course = 课程; seminar = 研讨会
congress = 代表大会; fair = 集市; carnival = 狂欢节; parade = 游行, 场; auction = 拍卖会, 场; ceremony = 典礼
excursion = 郊游, 次; walk = 散步, 次; trip = 旅游, 次; banquet = 宴会; vote = 投票, 次; breakfast = 早餐会
picnic = 野餐, 次; competition = 竞赛, 场; tournament = 锦标赛; marathon = 马拉松, 场; rehearsal = 彩排, 次
premiere = 首映, 场; demonstration = 示威, 场; strike = 罢工, 场; discussion = 讨论, 场
""",
    "quality": """
big = 大; small = 小; heavy = 重; light = 轻; long = 长; short = 短; wide = 宽; narrow = 窄; thick = 厚; thin = 薄
old = 旧; new = 新; clean = 干净; dirty = 脏; beautiful = 漂亮; ugly = 难看; cheap = 便宜; expensive = 贵; strong = 强壮
weak = 虚弱; fast = 快; slow = 慢; warm = 暖和; cold = 冷; hard = 硬; soft = 软; dry = 干燥; wet = 湿; dark = 暗
bright = 明亮; loud = 吵; quiet = 安静; dangerous = 危险; useful = 有用; simple = 简单; strange = 奇怪; famous = 有名
funny = 好笑; smart = 聪明; sweet = 甜
""",
    "colour": """
red = 红; blue = 蓝; green = 绿; black = 黑; white = 白; yellow = 黄; brown = 棕; grey = 灰
""",
    "weather": """
rain = 下雨; snow = 下雪; wind = 刮风; fog = 有雾; sun = 出太阳; storm = 有暴风雨
""",
}

SAYINGS = """
buy.tell: {person}花{price}欧元买了{colour thing:一}。 | {person}买了{colour thing:一}，花了{price}欧元。
{person}为{colour thing:一}付了{price}欧元。
buy.ask: {person}花{price}欧元买了{colour thing:一}吗？ | {person}买了{colour thing:一}，是花了{price}欧元吗？
{person}真的为{colour thing:一}付了{price}欧元吗？
lose.tell: 我在{place}里丢了我的{colour thing:色}。 | 我的{colour thing:色}在{place}里丢了。
在{place}里，我把我的{colour thing:色}弄丢了。
lose.ask: 您在{place}里看见{colour thing:一}了吗？ | 有人在{place}里找到{colour thing:一}了吗？
{place}里有{colour thing:一}吗？
cost.tell: 那{quality colour thing:量}要{price}欧元。 | 那{quality colour thing:量}的价格是{price}欧元。
花{price}欧元就可以买那{quality colour thing:量}。
cost.ask: 那{quality colour thing:量}要{price}欧元吗？ | 那{quality colour thing:量}的价格真的是{price}欧元吗？
花{price}欧元可以买那{quality colour thing:量}吗？
lie.tell: {thing}在{place}里。 | 您会在{place}里找到{thing}。 | 有人把{thing}忘在{place}里了。
lie.ask: {thing}在{place}里吗？ | 您把{thing}忘在{place}里了吗？ | 我会在{place}里找到{thing}吗？
travel.tell: {person}{month}去{city}。 | {month}{person}要去{city}旅行。 | {person}计划{month}去{city}。
travel.ask: {person}{month}去{city}吗？ | {month}{person}要去{city}旅行吗？ | {person}计划{month}去{city}吗？
live.tell: 那个{job}住在{city}。 | 那个{job}在{city}有一套房子。 | 住在{city}的是那个{job}。
live.ask: 那个{job}住在{city}吗？ | 那个{job}在{city}有一套房子吗？ | 那个{job}真的住在{city}吗？
know.tell: {person}在{city}认识一个{job}。 | 在{city}，{person}认识一个{job}。 | {person}认识一个从{city}来的{job}。
know.ask: {person}在{city}认识一个{job}吗？ | {person}认识一个从{city}来的{job}吗？ | 在{city}有{person}认识的{job}吗？
can.tell: {person}会{activity}。 | {person}学会了{activity}。 | {person}懂得怎么{activity}。
can.ask: {person}会{activity}吗？ | {person}学会了{activity}吗？ | {person}懂得怎么{activity}吗？
want.tell: {weekday}那个{job}想{activity}。 | 那个{job}{weekday}想要{activity}。 | 那个{job}{weekday}要{activity}。
want.ask: 那个{job}{weekday}想{activity}吗？ | 那个{job}{weekday}要{activity}吗？ | {weekday}那个{job}想要{activity}吗？
learn.tell: {person}在{city}学{activity}。 | 在{city}，{person}学习{activity}。 | {person}去{city}学{activity}了。
learn.ask: {person}在{city}学{activity}吗？ | {person}去{city}学{activity}了吗？ | {person}能在{city}学习{activity}吗？
study.tell: {person}在{city}读{subject}专业。 | 在{city}，{person}攻读{subject}。 | {person}是{city}的{subject}学生。
study.ask: {person}在{city}读{subject}专业吗？ | {person}是{city}的{subject}学生吗？
{person}真的在{city}攻读{subject}吗？
timetable.tell: {weekday}{time}我们有{subject}课。 | {subject}课{weekday}{time}开始。
我们的{subject}课在{weekday}{time}。
timetable.ask: {weekday}{time}我们有{subject}课吗？ | {subject}课{weekday}{time}开始吗？
我们的{subject}课在{weekday}{time}吗？
when.tell: {event}在{date}。 | {date}有{event:一}。 | {event}将在{date}举行。
when.ask: {event}在{date}吗？ | {event}将在{date}举行吗？ | {date}有{event:一}吗？
where.tell: {event}{year}年在{city}举行了。 | {year}年在{city}有过{event:一}。 | {year}年我们在{city}看过{event:一}。
where.ask: {event}是{year}年在{city}举行的吗？ | {year}年在{city}有过{event:一}吗？
您{year}年在{city}看过{event:一}吗？
invite.tell: {person}邀请我们{weekday}去参加{event}。 | {weekday}我们和{person}一起去参加{event}。
我们收到了{person}的邀请，{weekday}去参加{event}。
invite.ask: {person}邀请您{weekday}去参加{event}了吗？ | {weekday}您和{person}一起去参加{event}吗？
您收到{person}的邀请，{weekday}去参加{event}了吗？
see.tell: {place}里有{count animal:数}。 | 我在{place}里看见了{count animal:数}。 | {count animal:数}住在{place}里。
see.ask: {place}里有{count animal:数}吗？ | 您在{place}里看见了{count animal:数}吗？
{place}里住着{count animal:数}吗？
keep.tell: {person}有{animal:一}。 | {person}养了{animal:一}。 | {person}在家里养了{animal:一}。
keep.ask: {person}有{animal:一}吗？ | {person}养了{animal:一}吗？ | {person}在家里养了{animal:一}吗？
compare.tell: {animal}比{animal2}更{quality}。 | 和{animal2}相比，{animal}更{quality}。
我觉得{animal}比{animal2}更{quality}。
compare.ask: {animal}比{animal2}更{quality}吗？ | 和{animal2}相比，{animal}更{quality}吗？
您觉得{animal}比{animal2}更{quality}吗？
describe.tell: {thing}很{quality}。 | 这是{thing:一量}很{quality}的{thing}。 | 我觉得{thing}很{quality}。
describe.ask: {thing}很{quality}吗？ | 这是{thing:一量}很{quality}的{thing}吗？ | 您觉得{thing}很{quality}吗？
eat.tell: 那个{job}{weekday}吃{food}。 | {weekday}那个{job}吃的是{food}。 | {weekday}有{food}给那个{job}吃。
eat.ask: 那个{job}{weekday}吃{food}吗？ | {weekday}有{food}给那个{job}吃吗？ | {weekday}那个{job}吃的是{food}吗？
like.tell: {person}喜欢{food}。 | {person}喜欢吃{food}。 | {person}很爱吃{food}。
like.ask: {person}喜欢{food}吗？ | {person}喜欢吃{food}吗？ | {person}很爱吃{food}吗？
weigh.tell: {count:两}公斤{food}要{price}欧元。 | 花{price}欧元可以买{count:两}公斤{food}。
买{count:两}公斤{food}要付{price}欧元。
weigh.ask: {count:两}公斤{food}要{price}欧元吗？ | 花{price}欧元可以买{count:两}公斤{food}吗？
买{count:两}公斤{food}要付{price}欧元吗？
stock.tell: {place}里没有{food}了。 | 在{place}里已经没有{food}了。 | {place}里的{food}用完了。
stock.ask: {place}里有{food}吗？ | {place}里还有{food}吗？ | 在{place}里能买到{food}吗？
work.tell: 那个{job}在{city}的{place}工作。 | 在{city}，那个{job}在{place:一}工作。
那个{job}在{city}的{place:一}找到了工作。
work.ask: 那个{job}在{city}的{place}工作吗？ | 那个{job}在{city}的{place:一}找到工作了吗？
在{city}，那个{job}在{place:一}工作吗？
meet.tell: 我们{time}在{place}里和{person}见面。 | {time}{person}在{place}里等我们。
我们{time}会在{place}里见到{person}。
meet.ask: 您{time}在{place}里和{person}见面吗？ | {time}{person}在{place}里等我们吗？
我们{time}会在{place}里见到{person}吗？
open.tell: {place}{weekday}{time}开门。 | {weekday}{place}从{time}开放。 | {weekday}从{time}起您可以去{place}。
open.ask: {place}{weekday}{time}开门吗？ | {weekday}{place}从{time}开放吗？ | {weekday}从{time}起我们可以去{place}吗？
train.tell: 开往{city}的火车{time}从{platform}号站台出发。 | {time}从{platform}号站台有一趟去{city}的火车。
从{platform}号站台，火车{time}开往{city}。
train.ask: 开往{city}的火车{time}从{platform}号站台出发吗？ | {time}从{platform}号站台有去{city}的火车吗？
{platform}号站台的火车{time}开往{city}吗？
distance.tell: 从{city}到{city2}有{kilometres}公里。 | {city}离{city2}有{kilometres}公里。
{city}和{city2}之间的距离是{kilometres}公里。
distance.ask: 从{city}到{city2}有{kilometres}公里吗？ | {city}离{city2}有{kilometres}公里吗？
{city}和{city2}之间的距离是{kilometres}公里吗？
born.tell: {person}{year}年出生在{city}。 | {year}年{person}在{city}出生。 | {person}是{city}人，{year}年出生。
born.ask: {person}{year}年出生在{city}吗？ | {person}是{city}人，{year}年出生吗？
{person}真的是{year}年在{city}出生的吗？
forecast.tell: {weekday}{city}会{weather}。 | {city}{weekday}要{weather}。 | 听说{weekday}{city}会{weather}。
forecast.ask: {weekday}{city}会{weather}吗？ | {city}{weekday}要{weather}吗？ | 听说{weekday}{city}会{weather}，是吗？
temperature.tell: {month}{city}有{degrees}度。 | {city}{month}的气温是{degrees}度。 | 我们{city}{month}有{degrees}度。
temperature.ask: {month}{city}有{degrees}度吗？ | {city}{month}的气温是{degrees}度吗？
你们{city}{month}有{degrees}度吗？
give.tell: {person}送给{person2}{thing:一}。 | {person}想送给{person2}{thing:一}。
{person2}从{person}那里得到{thing:一}。
give.ask: {person}送给{person2}{thing:一}吗？ | {person}想送给{person2}{thing:一}吗？
{person2}从{person}那里得到{thing:一}吗？
room.tell: {person}在{room}号房间。 | 您会在{room}号房间找到{person}。 | 在{room}号房间的是{person}。
room.ask: {person}在{room}号房间吗？ | 我会在{room}号房间找到{person}吗？ | 在{room}号房间的是{person}吗？
bring.tell: 请把那{quality thing:量}拿到{place}里。 | 那{quality thing:量}要拿到{place}里。
麻烦您把那{quality thing:量}送到{place}里。
bring.ask: 您能把那{quality thing:量}拿到{place}里吗？ | 我应该把那{quality thing:量}送到{place}里吗？
那{quality thing:量}要拿到{place}里吗？
fear.tell: 那个{job}怕{animal}。 | 那个{job}不喜欢{animal}。 | {animal}让那个{job}害怕。
fear.ask: 那个{job}怕{animal}吗？ | 那个{job}不喜欢{animal}吗？ | {animal}让那个{job}害怕吗？
explain.tell: 那个{job}很懂{subject}。 | 那个{job}给我们讲解{subject}。 | 那个{job}教我们{subject}。
explain.ask: 那个{job}很懂{subject}吗？ | 那个{job}给我们讲解{subject}吗？ | 那个{job}教我们{subject}吗？
it: 它很{quality}。 | 它花了{price}欧元。 | 现在它在{place}里。
who: {person/他/她}住在{city}。 | {person/他/她}在{place}里工作。 | {person/他/她}{activity}的水平很高。
"""
NUMERALS = "零 一 两 三 四 五 六 七 八 九 十 十一 十二".split()  # before a measure word, so 两 and not 二
WEEKDAYS = "一二三四五六日"


def number(kind: str, value: int) -> str | None:
    """Counts, months, days and clock times."""
    if kind == "count":
        return NUMERALS[value]
    if kind == "weekday":
        return f"星期{WEEKDAYS[value]}"
    if kind == "month":
        return f"{value}月"
    if kind == "time":
        return f"{value // 100}点{value % 100:02}分" if value % 100 else f"{value // 100}点"
    return None


def measure(item: Word) -> str:
    """The measure word: 把, 本, 只."""
    return item.form(1) or "个"


def described(*items: Word) -> str:
    """很重的红色包: qualities and a colour before the noun."""
    *before, noun = items
    return "".join([*(f"{item}色" if item.kind == "colour" else f"很{item}的" for item in before), str(noun)])


FORMS = {
    "": lambda *items: "".join(map(str, items)),
    "一": lambda *items: f"一{measure(items[-1])}{described(*items)}",
    "一量": lambda item: f"一{measure(item)}",
    "量": lambda *items: f"{measure(items[-1])}{described(*items)}",
    "色": described,
    "数": lambda count, animal: f"{count}{measure(animal)}{animal}",
    "两": str,
}


def finish(text: str) -> str:
    """Nothing to be done."""
    return text
