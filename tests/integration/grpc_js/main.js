"use strict";
require("./harness").main([require("./unary"), require("./streams"), require("./connection")]);
