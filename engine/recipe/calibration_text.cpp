// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/calibration_text.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view text = R"(
The ferry to the outer islands leaves at six in the morning, when the harbour is still dark
and the fishermen are hosing down their boats. Margaret Olsen had taken it every Thursday
for eleven years, first as the district nurse and later, after the clinic closed, because
nobody had told her to stop. She carried a brown leather bag with two blood pressure cuffs,
a box of bandages, and a tin of ginger biscuits that she gave to anyone who did not
complain. "You will be late for the tide," the skipper said. "The tide," she answered, "has
been late for me often enough."

On the crossing she read the minutes of the council meeting. The council had 14 members, of
whom 9 were present; the budget for 2024 was 1,284,500 crowns, which is 3.7 % more than the
year before. Item 4 was the school roof. Item 5 was the bridge. The bridge had been item 5
for as long as she could remember.

At the second island a boy of about ten came aboard with a goat on a rope and sat down opposite
her. He had a black eye, rather well advanced, and he held the rope with both hands, as if the
goat were the one likely to fall overboard. "Who won?" asked Margaret. The boy considered the
question honestly. "It was stopped," he said, "by my aunt." He was taking the animal to its new
owner, a widower called Brandt, who kept bees and was said to talk to them in Latin. Nobody had
asked the goat. It looked past them both at the water with yellow eyes and the expression of a
magistrate who has heard the case before.

"Does your eye hurt?"

"Only when I look at things," said the boy.

She gave him two biscuits, one of which he passed on at once. What she remembered afterwards was
not the conversation but the sound of the engine changing, a kind of cough, and the skipper
putting his head out of the wheelhouse window without any hurry at all. They drifted. A long grey
swell lifted the stern and set it down again. Somewhere to the north, beyond the lighthouse, a
bell buoy that she had never once noticed in eleven years struck twice, stopped, and struck
again. The skipper went below. There was hammering, then silence, then a word that the boy
repeated under his breath so as not to lose it.

Margaret folded the minutes and put them into the bag. The light was coming up behind the
islands now, grey first and then, quite suddenly, gold. She counted the houses on the shore
as she always did, and there were still seven of them, and smoke came from six.

The trade in ice began with ponds. Men cut it in February with saws made for the purpose, packed
it in sawdust, and sent it by ship to places where nobody had seen any; of every hundred blocks
that left Boston some sixty arrived in Havana, and a merchant who could keep his losses under
half grew rich. What ended the business was not the machine that makes cold, which for thirty
years cost more than it saved, but dirt: towns grew, their rivers could no longer be trusted, and
customers who had once held a glass to the light and admired it began to ask where the water had
been.

Water boils at a lower temperature on a mountain because the air presses less on its
surface. At sea level the boiling point is 100 degrees Celsius; at 3,000 metres it is about
90. So an egg needs longer there, although the water bubbles just as loudly. The same
effect, turned round, makes a pressure cooker fast.

Dear Mr. Hargreaves, thank you for your letter of 12 March. We have looked into the matter
of invoice no. 20-7731 and found that you were charged twice for the same delivery. The
amount of 86.40 will be paid back within five working days. We are sorry for the trouble.
Yours sincerely, A. Whitcombe, Accounts.

User: How do I find the longest line of a file in Python?
Assistant: Read the file line by line and keep the longest one that you have seen:

```python
def longest_line(path):
    best = ""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.rstrip("\n")
            if len(line) > len(best):
                best = line
    return best

if __name__ == "__main__":
    print(longest_line("notes.txt"))
```

For a large file this needs memory for one line only. If two lines are equally long, the first
one wins.
User: And in the shell?
Assistant: `awk 'length > max { max = length; line = $0 } END { print line }' notes.txt`

{"name": "get_weather", "arguments": {"city": "Tromsø", "days": 3, "units": "metric"}}
{"temperature": [-4.5, -2.0, 0.5], "wind": ["NW", "NW", "W"], "snow": true}

Die Brücke wurde im Jahre 1897 gebaut und nach dem Krieg zweimal erneuert. Heute fahren dort
etwa tausend Wagen am Tag. La lettre est arrivée trop tard, mais personne ne s'en est
plaint. 这座城市的图书馆每天早上九点开门， 学生们常常在门口排队。Она закрыла книгу и долго смотрела в окно.
)";

}  // namespace

std::string_view calibration_text() noexcept { return text; }

}  // namespace semantic::engine
