#include "engine/recipe/calibration_text.hpp"

namespace semantic::engine {

std::string_view calibration_text() noexcept {
    return R"(
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

Water boils at a lower temperature on a mountain because the air presses less on its
surface. At sea level the boiling point is 100 degrees Celsius; at 3,000 metres it is about
90. So an egg needs longer there, although the water bubbles just as loudly. The same
effect, turned round, makes a pressure cooker fast.

Die Brücke wurde im Jahre 1897 gebaut und nach dem Krieg zweimal erneuert. Heute fahren dort
etwa tausend Wagen am Tag. La lettre est arrivée trop tard, mais personne ne s'en est
plaint. 这座城市的图书馆每天早上九点开门， 学生们常常在门口排队。Она закрыла книгу и долго смотрела в окно.

Dear Mr. Hargreaves, thank you for your letter of 12 March. We have looked into the matter
of invoice no. 20-7731 and found that you were charged twice for the same delivery. The
amount of 86.40 will be paid back within five working days. We are sorry for the trouble.
Yours sincerely, A. Whitcombe, Accounts.

Margaret folded the minutes and put them into the bag. The light was coming up behind the
islands now, grey first and then, quite suddenly, gold. She counted the houses on the shore
as she always did, and there were still seven of them, and smoke came from six.
)";
}

}  // namespace semantic::engine
